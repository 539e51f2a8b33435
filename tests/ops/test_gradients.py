"""Gradients through ops are refused with a remedy, instead of being None."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops

X = tf.constant([[1.0, -5.0], [2.0, 3.0]])
FLAT, PLACES = tf.reshape(X, [-1]), tf.constant([1, 2])

BETWEEN_FLOATS = {
    "topk_residual": lambda x: ops.topk_residual(x, x, 2).values,
    "the residual of topk_residual": lambda x: ops.topk_residual(x, x, 2).residual,
    "grouped_topk_residual": lambda x: ops.grouped_topk_residual([x], [x], 2).values,
    "take_from_sum": lambda x: ops.take_from_sum(x, x, PLACES).values,
    "scatter_decode": lambda x: ops.scatter_decode(9, tf.reshape(x, [-1])[:2], PLACES),
    "scatter_decode_add": lambda x: ops.scatter_decode_add(x, FLAT[:2], PLACES),
    "the weights of scatter_decode": lambda x: ops.scatter_decode(9, FLAT[:2], PLACES, [0, 2], x[0, :1]),
    "matrix_times": lambda x: ops.matrix_times(x, X),
    "low_rank_matrix": lambda x: ops.low_rank_matrix(x, X),
}


@pytest.mark.parametrize("name", BETWEEN_FLOATS)
def test_a_gradient_is_refused_with_a_remedy(name, lowering):
    with ops.lowering.use_lowering(lowering), tf.GradientTape() as tape:
        tape.watch(X)
        found = tf.reduce_sum(BETWEEN_FLOATS[name](X))
    with pytest.raises(LookupError, match=r"tf\.stop_gradient"):
        tape.gradient(found, X)


def test_a_gradient_in_a_graph_is_refused_too(lowering):
    @tf.function(autograph=False)
    def gradient(x):
        with ops.lowering.use_lowering(lowering), tf.GradientTape() as tape:
            tape.watch(x)
            found = ops.topk_residual(x, x, 2).values
        return tape.gradient(found, x)

    with pytest.raises(LookupError, match=r"tf\.stop_gradient"):
        gradient(X)


def test_gradients_beside_an_op_are_those_without_it(lowering):
    with ops.lowering.use_lowering(lowering), tf.GradientTape() as tape:
        tape.watch(X)
        sent = ops.topk_residual(tf.stop_gradient(X), tf.zeros([2, 2]), 2).values
        loss = tf.reduce_sum(X * X) + tf.reduce_sum(sent)
    np.testing.assert_array_equal(tape.gradient(loss, X), 2 * X)


def test_a_gradient_ends_at_bytes_without_an_error(lowering):
    def received(x):
        code = ops.unframe(ops.frame(ops.encode_values(x, "sign"), b"header"), b"header")
        return tf.reduce_sum(ops.decode_values(code, 4, "sign", dtype=tf.float32))

    for call in (received, tf.function(received, autograph=False)):
        with ops.lowering.use_lowering(lowering), tf.GradientTape() as tape:
            tape.watch(FLAT)
            found = call(FLAT)
        assert tape.gradient(found, FLAT) is None


def test_a_program_may_define_the_gradient(lowering):
    @tf.custom_gradient
    def sparse(x):
        taken = ops.topk_residual(x, tf.zeros_like(x), 2)
        return x - taken.residual, lambda upstream: upstream

    with ops.lowering.use_lowering(lowering), tf.GradientTape() as tape:
        tape.watch(X)
        loss = tf.reduce_sum(sparse(X) * 3)
    np.testing.assert_array_equal(tape.gradient(loss, X), tf.fill([2, 2], 3.0))
