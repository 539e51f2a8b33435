"""A Flower app: a small network learns handwritten digits, and its updates travel compressed."""
