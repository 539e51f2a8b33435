"""`fedplug.ops.grouped_topk_residual` gives the bits of its reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops
from fedplug.errors import ArgumentError, UnknownNameError

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=5)


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


def tensors_of(as_dtype, sizes, seed):
    """Tensors of small integers, with ties within and between them."""
    rng = np.random.default_rng(seed)
    return [as_dtype(*rng.integers(-4, 5, (2, size)).astype(np.float64)) for size in sizes]


@pytest.mark.parametrize("on_nonfinite", ["error", "drop"])
@settings(deadline=None)
@given(sizes=SIZES, k=st.integers(0, 50), seed=st.integers(0, 99), bad=st.booleans())
def test_op_and_reference_agree_bit_for_bit(agree, as_dtype, on_nonfinite, sizes, k, seed, bad):
    tensors = tensors_of(as_dtype, sizes, seed)
    if bad and sizes[-1]:
        tensors[-1][0][-1] = np.nan
    deltas, residuals = zip(*tensors, strict=True)
    agree(ops.grouped_topk_residual, deltas, residuals, k, on_nonfinite=on_nonfinite)


def test_shapes_are_kept_and_known(lowering):
    specs = [tf.TensorSpec([3, 4], tf.float32), tf.TensorSpec([], tf.float32), tf.TensorSpec([0], tf.float32)]
    graph = tf.function(
        lambda *d: ops.grouped_topk_residual(d, d, 5, lowering=lowering), autograph=False
    ).get_concrete_function(*specs)
    assert [r.shape for r in graph.structured_outputs.residuals] == [spec.shape for spec in specs]
    got = graph(tf.ones([3, 4]), tf.ones([]), tf.ones([0]))
    assert got.values.shape == [5]
    assert got.row_splits.numpy().tolist() == [0, 5, 5, 5]


def test_arguments_that_do_not_fit_are_refused(lowering):
    one, two = tf.zeros(1), tf.zeros(2)
    with pytest.raises(ArgumentError, match="0 deltas and 0 residuals"):
        ops.grouped_topk_residual([], [], 1, lowering=lowering)
    with pytest.raises(ArgumentError, match="2 deltas and 1 residuals"):
        ops.grouped_topk_residual([one, two], [one], 1, lowering=lowering)
    with pytest.raises(ValueError, match=r"delta 1 has shape .* but residual 1 has"):
        ops.grouped_topk_residual([one, two], [one, one], 1, lowering=lowering)
    with pytest.raises(TypeError, match="of one dtype, not float32 and float64"):
        ops.grouped_topk_residual(
            [one, tf.zeros(1, tf.float64)], [one, tf.zeros(1, tf.float64)], 1, lowering=lowering
        )
    with pytest.raises(tf.errors.InvalidArgumentError, match="k must be 0 or more"):
        ops.grouped_topk_residual([one], [one], -1, lowering=lowering)
    with pytest.raises(UnknownNameError, match="did you mean 'drop'"):
        ops.grouped_topk_residual([one], [one], 1, on_nonfinite="dropp", lowering=lowering)
