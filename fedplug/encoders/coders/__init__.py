"""Coders: the lossless stages of a pipeline, for symbols (entropy coders) and for indices (index coders)."""
