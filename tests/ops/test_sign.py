"""Signs with error feedback: one op, its reference, and the two ops it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import ops

# No denormals: TensorFlow's arithmetic takes them for zero, the kernels' does not.
NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(2**-10, 2**14, width=16),
    st.floats(-(2**14), -(2**-10), width=16),
)
SHAPES = st.sampled_from([(0,), (), (1,), (7,), (3, 5), (90,)])


@st.composite
def updates(draw):
    """A delta and a residual of one shape."""
    shape = draw(SHAPES)
    return [draw(hnp.arrays(np.float32, shape, elements=NUMBERS)) for _ in range(2)]


@settings(deadline=None, max_examples=40)
@given(update=updates())
def test_op_and_reference_agree_bit_for_bit(agree, dtype, update):
    agree(ops.sign_residual, *(tf.cast(part, dtype) for part in update))


@settings(deadline=None, max_examples=15)
@given(update=updates())
def test_the_code_is_that_of_the_sum_and_the_residual_what_it_loses(lowering, dtype, update):
    delta, residual = (tf.cast(part, dtype) for part in update)
    got = ops.sign_residual(delta, residual, lowering=lowering)
    a = delta + residual
    code = ops.encode_values(tf.reshape(a, [-1]), "sign")
    decoded = tf.reshape(ops.decode_values(code, tf.size(a), "sign", dtype=dtype), a.shape)
    assert got.code.numpy().tobytes() == code.numpy().tobytes()
    assert got.residual.numpy().tobytes() == (a - decoded).numpy().tobytes()


def test_a_sum_that_is_not_finite_is_refused(lowering):
    x = tf.constant([1.0, 3e38])
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.sign_residual(x, x, lowering=lowering)


def test_shapes_that_differ_are_refused_while_building_or_when_run(lowering):
    with pytest.raises(ValueError, match=r"delta has shape \(2,\) but residual has \(3,\)"):
        ops.sign_residual(tf.zeros(2), tf.zeros(3), lowering=lowering)

    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)], autograph=False)
    def run(delta, residual):
        return ops.sign_residual(delta, residual, lowering=lowering)

    for other in ([3], [1], [1, 2], []):
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(tf.zeros([2]), tf.zeros(other))


def test_only_floats_are_taken(lowering):
    with pytest.raises(TypeError, match="delta must be one of float32"):
        ops.sign_residual(tf.constant([1]), tf.constant([1]), lowering=lowering)
