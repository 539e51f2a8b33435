"""Tests that the identity encoder changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import Identity

ROUND = tf.constant(0, tf.int32)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.int64, tf.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_a_tensor_comes_back_bit_for_bit(dtype: tf.DType, shape: tuple[int, ...]) -> None:
    x = tf.cast(np.random.default_rng(0).integers(0, 2, shape), dtype)
    encoder, spec = Identity(), tf.TensorSpec(shape, dtype)
    payload, state = encoder.encode(x, {}, ROUND)
    assert state == {}
    back = encoder.decode(encoder.from_wire(encoder.to_wire(payload, spec), spec), spec)
    assert back.shape == shape
    assert back.numpy().tobytes() == x.numpy().tobytes()


@pytest.mark.parametrize("size", [0, 11, 13])
def test_a_body_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="there must be 12"):
        Identity().from_wire(tf.zeros([size], tf.uint8), tf.TensorSpec([3], tf.float32))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.uint8, tf.bool])
@pytest.mark.parametrize("wrong", [-1, 1, 8])
def test_a_body_of_another_length_is_refused_in_an_optimized_graph_too(dtype: tf.DType, wrong: int) -> None:
    spec = tf.TensorSpec([3], dtype)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)])
    def decode(body: tf.Tensor) -> tf.Tensor:
        return Identity().decode(Identity().from_wire(body, spec), spec)

    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(tf.zeros([3 * dtype.size + wrong], tf.uint8))
