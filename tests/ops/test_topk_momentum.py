"""The op Fedplug>TopKMomentum is the kernel `fedplug.kernels.topk_momentum`, out of place."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import kernels
from fedplug.ops import _loader


def momentum_op(gradient, velocity, residual, k, **options):
    return _loader.library().fedplug_top_k_momentum(
        gradient=gradient,
        momentum=tf.constant(0.9, gradient.dtype),
        velocity=velocity,
        residual=residual,
        k=k,
        **options,
    )


@pytest.mark.parametrize("n", [0, 5, 90_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_op_gives_the_bits_of_the_kernel_and_leaves_its_inputs(dtype, n):
    gradient, velocity, residual = np.random.default_rng(n).standard_normal((3, n)).astype(dtype)
    inputs = [tf.constant(x) for x in (gradient, velocity, residual)]
    got = momentum_op(*inputs, n // 50)
    for tensor, array in zip(inputs, (gradient, velocity, residual), strict=True):
        np.testing.assert_array_equal(tensor, array)
    values, indices = kernels.topk_momentum(gradient, velocity, residual, n // 50, momentum=0.9)
    expected = (values, indices, velocity, residual)
    assert [x.numpy().tobytes() for x in got[:4]] == [x.tobytes() for x in expected]
    assert got.nonfinite == 0


def test_a_constant_k_gives_static_shapes():
    shape = tf.TensorSpec([2, 3])
    function = tf.function(lambda g, v, r: momentum_op(g, v, r, 4), autograph=False)
    assert list(function.get_concrete_function(shape, shape, shape).output_shapes) == [
        [4],
        [4],
        [2, 3],
        [2, 3],
        [],
    ]


def test_a_sum_that_is_not_finite_is_refused_or_dropped():
    gradient, zeros = tf.constant([1.0, np.inf, 3.0]), tf.zeros(3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="1 of 3 sums"):
        momentum_op(gradient, zeros, zeros, 1)
    got = momentum_op(gradient, zeros, zeros, 1, on_nonfinite="drop")
    assert got.nonfinite == 1
    np.testing.assert_array_equal(got.new_velocity, [1, 0, 0])
    np.testing.assert_array_equal(got.new_residual, [1, 0, 0])


def test_shapes_that_differ_and_a_negative_k_are_refused():
    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None), tf.TensorSpec([], tf.int64)])
    def run(gradient, velocity, k):
        return momentum_op(gradient, velocity, gradient, k)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[2\] but velocity has \[3\]"):
        run(tf.zeros(2), tf.zeros(3), 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="k must be 0 or more, not -1"):
        run(tf.zeros(2), tf.zeros(2), -1)
