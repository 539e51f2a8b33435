"""Quantizers: the stage of a pipeline that represents values in fewer bits."""
