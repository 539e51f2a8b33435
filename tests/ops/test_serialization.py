"""Bytes of tensors equal NumPy's, and their checksum zlib's. Invalid bytes are refused."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops, wire


@pytest.mark.parametrize("name", sorted(wire.DTYPE_CODES))
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3)])
def test_bytes_are_those_of_numpy_and_come_back(name: str, shape: tuple[int, ...]) -> None:
    x = tf.cast(tf.reshape(tf.range(np.prod(shape, dtype=int)) % 2, shape), name)
    data = ops.to_bytes(x)
    assert data.numpy().tobytes() == x.numpy().tobytes()
    back = ops.from_bytes(data, x.dtype)
    assert back.dtype == x.dtype
    assert back.numpy().tobytes() == x.numpy().tobytes()


def test_half_a_number_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not whole float32 numbers"):
        ops.from_bytes(tf.zeros([7], tf.uint8), tf.float32)


def test_a_bool_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="neither 0 nor 1"):
        ops.from_bytes(tf.constant([0, 1, 2], tf.uint8), tf.bool)


def test_crc32_is_the_checksum_of_zlib_for_messages_of_any_length_in_a_graph(lowering):
    graph = tf.function(
        lambda data: ops.crc32(data, lowering=lowering),
        input_signature=[tf.TensorSpec([None], tf.uint8)],
        autograph=False,
    )
    message = np.random.default_rng(1).integers(0, 256, 100_003, dtype=np.uint8)
    for length in (*range(70), 4096, 65_537, message.size):
        checksum = graph(message[:length])
        assert checksum.dtype == tf.uint32
        assert int(checksum) == zlib.crc32(message[:length])
