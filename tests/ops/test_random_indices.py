"""Random indices: one from each range, equal from op, reference and kernel, for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import kernels, ops
from fedplug.errors import ArgumentError

SEEDS = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(seed=SEEDS, count=st.integers(-1, 700), size=st.one_of(st.integers(-1, 700), st.integers(0, 2**31)))
def test_op_and_reference_draw_the_same_indices_or_refuse_alike(agree, seed, count, size):
    agree(ops.draw_indices, seed, count, size)


@settings(deadline=None)
@given(
    count=st.integers(0, 700),
    size=st.integers(0, 2**31 - 1),
    seed=st.integers(0, 2**31 - 1),
    number=st.integers(0, 2**31 - 1),
)
def test_op_and_kernel_draw_the_same_indices(lowering, count, size, seed, number):
    count = min(count, size)
    drawn = ops.draw_indices(ops.round_seed(seed, number), count, size, lowering=lowering)
    np.testing.assert_array_equal(drawn, kernels.draw_indices(seed * 2**32 + number, count, size))


@settings(deadline=None)
@given(seed=SEEDS, count=st.integers(1, 200), size=st.integers(1, 2**31 - 1))
def test_one_index_of_each_run_is_drawn(lowering, seed, count, size):
    count = min(count, size)
    indices = ops.draw_indices(seed, count, size, lowering=lowering).numpy()
    begins = np.arange(count + 1) * size // count
    assert ((indices >= begins[:-1]) & (indices < begins[1:])).all()


def test_many_indices_are_drawn_by_many_threads_as_by_one():
    threads = kernels.draw_indices(5, 200_000, 2**31 - 1)
    np.testing.assert_array_equal(threads, ops.draw_indices(5, 200_000, 2**31 - 1, lowering="reference"))


def test_count_and_size_may_be_known_only_when_the_graph_runs(lowering):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)] * 2, autograph=False)
    def draw(count, size):
        return ops.draw_indices(7, count, size, lowering=lowering)

    np.testing.assert_array_equal(draw(10, 100), ops.draw_indices(7, 10, 100))
    with pytest.raises(tf.errors.InvalidArgumentError):
        draw(6, 5)


@pytest.mark.parametrize(("count", "size"), [(-1, 5), (6, 5), (0, -1), (0, 2**31)])
def test_more_indices_than_there_are_positions_are_not_drawn(lowering, count, size):
    with pytest.raises(ArgumentError, match="are not 0 <= count <= size"):
        kernels.draw_indices(0, count, size)
    with pytest.raises(tf.errors.InvalidArgumentError, match="count"):
        ops.draw_indices(0, count, size, lowering=lowering)
