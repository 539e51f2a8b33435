"""`fedplug.ops.crc32`, the compiled op and its reference, equals zlib's checksum."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops


@settings(deadline=None)
@given(message=st.binary(max_size=70))
def test_it_is_the_checksum_of_zlib(lowering, message):
    checksum = ops.crc32(np.frombuffer(message, np.uint8), lowering=lowering)
    assert checksum.dtype == tf.uint32
    assert int(checksum) == zlib.crc32(message)


def test_it_is_the_checksum_of_zlib_for_long_messages_in_a_graph(lowering):
    graph = tf.function(
        lambda data: ops.crc32(data, lowering=lowering),
        input_signature=[tf.TensorSpec([None], tf.uint8)],
        autograph=False,
    )
    message = np.random.default_rng(1).integers(0, 256, 100_003, dtype=np.uint8)
    for length in (0, 1, 4096, 65_537, message.size):
        assert int(graph(message[:length])) == zlib.crc32(message[:length])


def test_a_matrix_is_refused_while_building(lowering):
    with pytest.raises(ValueError, match="must be a vector"):
        ops.crc32(tf.zeros([2, 2], tf.uint8), lowering=lowering)
