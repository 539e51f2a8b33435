"""Serialized TensorFlow graphs: rewriting them, and calling them as functions."""
