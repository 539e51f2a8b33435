"""Random numbers, compared with TensorFlow's if it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(SEEDS, SEEDS, st.one_of(st.integers(0, 30), st.sampled_from([511, 512, 513, 2048, 70_001])))
@settings(deadline=None)
def test_they_are_the_numbers_of_tensorflow(first, second, count):
    tf = pytest.importorskip("tensorflow")

    def draw(dtype, **bounds):
        seed = tf.constant([first, second], tf.int64)
        return tf.random.stateless_uniform([count], seed, dtype=dtype, alg="philox", **bounds).numpy()

    words = kernels.random_words(count, first, second)
    assert words.dtype == np.uint32
    np.testing.assert_array_equal(words.view(np.int32), draw(tf.int32, minval=None, maxval=None))
    for dtype in (np.float32, np.float64):
        numbers = kernels.random_uniform(count, first, second, dtype)
        assert numbers.dtype == dtype
        np.testing.assert_array_equal(numbers, draw(dtype))


def test_these_words_are_drawn_for_ever():
    expected = [1105988140, 1738052849, 3959391294, 370444179, 10670227, 4048756165]
    assert kernels.random_words(6, 1, 2).tolist() == expected
    assert kernels.random_words(300_000, 1, 2)[:6].tolist() == expected
    # On several threads.
    indices = kernels.draw_indices(7, 70_001, 2**31 - 1)
    assert kernels.crc32(indices) == 3719280551


def test_data_that_cannot_be_drawn_is_refused():
    with pytest.raises(errors.ArgumentError, match="count = -1 is negative"):
        kernels.random_words(-1, 0, 0)
    with pytest.raises(errors.ArgumentError, match="dtype is float16; it must be float32 or float64"):
        kernels.random_uniform(1, 0, 0, np.float16)
    for count, size in [(-1, 5), (6, 5), (0, -1), (0, 2**31)]:
        with pytest.raises(errors.ArgumentError, match="are not 0 <= count <= size"):
            kernels.draw_indices(0, count, size)
