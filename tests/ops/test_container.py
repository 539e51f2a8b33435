"""The ops for containers: layout, round trip, and refused containers."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops, wire

HEADER = wire.header("sparse/1", "float32", (3, 5))
HEADERS = st.sampled_from([HEADER, wire.header("sign/1", "bfloat16", ())])
BODIES = st.binary(max_size=70)


def as_tensor(data):
    return tf.constant(np.frombuffer(bytes(data), np.uint8))


def slow_frame(body, header):
    """The layout that docs/wire-format.md specifies."""
    content = header + len(body).to_bytes(8, "little") + body
    return content + zlib.crc32(content).to_bytes(4, "little")


@settings(deadline=None)
@given(body=BODIES, header=HEADERS)
def test_a_container_is_laid_out_as_specified_and_its_body_comes_back(lowering, body, header):
    container = ops.frame(as_tensor(body), header, lowering=lowering)
    assert container.numpy().tobytes() == slow_frame(body, header)
    assert ops.unframe(container, header, lowering=lowering).numpy().tobytes() == body


@settings(deadline=None)
@given(body=BODIES, header=HEADERS, data=st.data())
def test_op_and_reference_refuse_the_same_containers_and_agree_on_the_rest(agree, body, header, data):
    container = bytearray(slow_frame(body, header))
    for _ in range(data.draw(st.integers(0, 2))):
        bit = data.draw(st.integers(0, 8 * len(container) - 1))
        container[bit // 8] ^= 1 << bit % 8
    length = data.draw(st.sampled_from([len(container), len(container), len(container) - 1, 9]))
    container = container[:length] + data.draw(st.sampled_from([b"", b"", b"\0"]))
    agree(ops.unframe, as_tensor(container), HEADER)


@pytest.mark.parametrize("length", [3, 5, 2**32 + 4, 2**63, 2**64 - 1])
def test_a_length_that_is_not_that_of_the_body_is_refused_though_the_checksum_is_right(lowering, length):
    content = HEADER + length.to_bytes(8, "little") + b"body"
    container = as_tensor(content + zlib.crc32(content).to_bytes(4, "little"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="length"):
        ops.unframe(container, HEADER, lowering=lowering)


def test_a_payload_for_something_else_is_refused(lowering):
    container = as_tensor(slow_frame(b"body", HEADER))
    for other in (HEADER[:-1] + b"x", wire.header("sparse/1", "float64", (3, 5))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="made by another encoder or for another te"):
            ops.unframe(container, other, lowering=lowering)
