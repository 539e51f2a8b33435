"""Assignments: which encoder each tensor of a model gets."""
