"""Sparsifiers: the first stage of a pipeline chooses which entries are sent."""
