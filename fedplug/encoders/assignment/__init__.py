"""Assignments: which encoder each tensor of a model gets, and rate control over all of them."""
