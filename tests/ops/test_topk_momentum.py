"""Top-k with momentum: the op, its reference, and the kernel that works in place."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import kernels, ops
from fedplug.errors import UnknownNameError

# Ties, zeros of both signs and numbers that are not finite; no denormals, which only the op keeps.
FINITE = st.one_of(
    st.integers(-4, 4).map(float), st.just(-0.0), st.floats(2**-6, 2**6, width=16), st.just(-250.0)
)
NUMBERS = st.one_of(FINITE, st.sampled_from([np.nan, np.inf, -np.inf]))
SHAPES = st.sampled_from([(), (0,), (1,), (9,), (3, 4), (40,)])


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


@st.composite
def steps(draw, elements):
    """A gradient, a velocity and a residual of one shape."""
    shape = draw(SHAPES)
    return [draw(hnp.arrays(np.float32, shape, elements=elements)) for _ in range(3)]


@settings(deadline=None)
@given(
    step=st.sampled_from([FINITE, FINITE, NUMBERS]).flatmap(steps),
    k=st.integers(-1, 50),
    momentum=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    policy=st.sampled_from(["error", "drop"]),
)
def test_op_and_reference_agree_bit_for_bit(agree, dtype, step, k, momentum, policy):
    step = [tf.cast(part, dtype) for part in step]
    agree(ops.topk_momentum, *step, k, momentum=momentum, on_nonfinite=policy)


@pytest.mark.parametrize("n", [0, 5, 90_000])
@pytest.mark.parametrize("kernel_dtype", [np.float32, np.float64])
def test_the_op_gives_the_bits_of_the_kernel_and_leaves_its_inputs(lowering, kernel_dtype, n):
    gradient, velocity, residual = np.random.default_rng(n).standard_normal((3, n)).astype(kernel_dtype)
    inputs = [tf.constant(x) for x in (gradient, velocity, residual)]
    got = ops.topk_momentum(*inputs, n // 50, momentum=0.9, lowering=lowering)
    for tensor, array in zip(inputs, (gradient, velocity, residual), strict=True):
        np.testing.assert_array_equal(tensor, array)
    values, indices = kernels.topk_momentum(gradient, velocity, residual, n // 50, momentum=0.9)
    expected = (values, indices, velocity, residual)
    assert [x.numpy().tobytes() for x in got[:4]] == [x.tobytes() for x in expected]
    assert got.nonfinite == 0


def test_a_constant_k_gives_static_shapes(lowering, dtype):
    def step(gradient, velocity, residual):
        return ops.topk_momentum(gradient, velocity, residual, 4, momentum=0.9, lowering=lowering)

    spec = tf.TensorSpec([2, 3], dtype)
    shapes = tf.function(step, autograph=False).get_concrete_function(spec, spec, spec).output_shapes
    assert list(shapes) == [[4], [4], [2, 3], [2, 3], []]


def test_a_sum_that_is_not_finite_is_refused_or_dropped(lowering):
    gradient, zeros = tf.constant([1.0, np.inf, 3.0]), tf.zeros(3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.topk_momentum(gradient, zeros, zeros, 1, momentum=0.9, lowering=lowering)
    got = ops.topk_momentum(gradient, zeros, zeros, 1, momentum=0.9, on_nonfinite="drop", lowering=lowering)
    assert got.nonfinite == 1
    np.testing.assert_array_equal(got.velocity, [1, 0, 0])
    np.testing.assert_array_equal(got.residual, [1, 0, 0])


def test_shapes_that_differ_and_a_negative_k_are_refused_when_run(lowering):
    vector, k = tf.TensorSpec(None), tf.TensorSpec([], tf.int64)

    @tf.function(input_signature=[vector, vector, vector, k], autograph=False)
    def run(gradient, velocity, residual, k):
        return ops.topk_momentum(gradient, velocity, residual, k, momentum=0.9, lowering=lowering)

    two, three = tf.zeros(2), tf.zeros(3)
    of_op = lowering == "fused"  # it also says which shapes differ
    for velocity, residual, message in (
        (three, two, r"shape \[2\] but velocity has \[3\]"),
        (two, three, r"shape \[2\] but residual has \[3\]"),
        (tf.zeros([]), two, r"shape \[2\] but velocity has \[\]"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message if of_op else "shape"):
            run(two, velocity, residual, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="k must be 0 or more"):
        run(two, two, two, -1)


def test_wrong_arguments_are_refused_while_building(lowering):
    two, three = tf.zeros(2), tf.zeros(3)
    with pytest.raises(ValueError, match=r"gradient has shape \(2,\) but velocity has \(3,\)"):
        ops.topk_momentum(two, three, two, 1, momentum=0.9, lowering=lowering)
    with pytest.raises(ValueError, match=r"gradient has shape \(2,\) but residual has \(3,\)"):
        ops.topk_momentum(two, two, three, 1, momentum=0.9, lowering=lowering)
    with pytest.raises(UnknownNameError, match="did you mean 'drop'"):
        ops.topk_momentum(two, two, two, 1, momentum=0.9, on_nonfinite="drip", lowering=lowering)
    with pytest.raises(TypeError, match="gradient must be float32 or float64"):
        ops.topk_momentum([1], [1], [1], 1, momentum=1, lowering=lowering)
