"""Entropy coders: the lossless stages that write a quantizer's symbols in fewer bytes."""
