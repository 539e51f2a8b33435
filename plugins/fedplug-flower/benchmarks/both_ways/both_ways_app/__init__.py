"""A Flower app that trains with plain or compressed messages, and records bytes, seconds and accuracy."""
