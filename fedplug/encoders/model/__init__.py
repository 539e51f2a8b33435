"""Encoders for all tensors of a model: encoding, statistics and metrics."""
