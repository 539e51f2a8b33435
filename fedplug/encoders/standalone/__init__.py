"""Encoders of one tensor that are not pipelines."""
