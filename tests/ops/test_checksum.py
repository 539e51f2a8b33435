"""`fedplug.ops.crc32`, the compiled op and its reference, equals zlib's checksum."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops


def test_it_is_the_checksum_of_zlib_for_messages_of_any_length_in_a_graph(lowering):
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


def test_a_matrix_is_refused_while_building(lowering):
    with pytest.raises(ValueError, match="must be a vector"):
        ops.crc32(tf.zeros([2, 2], tf.uint8), lowering=lowering)
