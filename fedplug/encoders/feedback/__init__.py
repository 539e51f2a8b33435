"""Encoders around encoders: what a client keeps between rounds, and what it does with it."""
