"""Tests that identity refuses a body of another length, also in an optimized graph."""

from __future__ import annotations

import pytest
import tensorflow as tf

from fedplug.encoders import Identity


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.uint8, tf.bool])
@pytest.mark.parametrize("wrong", [-1, 1, 8])
def test_a_body_of_another_length_is_refused(dtype: tf.DType, wrong: int) -> None:
    spec = tf.TensorSpec([3], dtype)
    body = tf.zeros([3 * dtype.size + wrong], tf.uint8)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)])
    def decode(body: tf.Tensor) -> tf.Tensor:
        return Identity().decode(Identity().from_wire(body, spec), spec)

    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(body)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"there must be {3 * dtype.size}"):
        Identity().from_wire(body, spec)
