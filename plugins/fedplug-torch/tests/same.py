"""Compares the results of two ranks or of two trainings."""

import numpy as np


def assert_same(left, right):
    """Compares arrays by name, bit for bit except for the signs of zeros."""
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
