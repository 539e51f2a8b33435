"""Rewrites serialized TensorFlow graphs and calls them as functions."""
