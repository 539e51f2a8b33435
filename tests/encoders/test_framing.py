"""Tests the container inside graphs: it has the same bytes and the same refusals as `fedplug.wire`."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import wire
from fedplug.encoders.model import framing
from fedplug.ops.lowering import use_lowering

SPEC = tf.TensorSpec([3, 5], tf.float32)


@pytest.fixture(params=["fused", "reference"], autouse=True, scope="module")
def _lowering(request: pytest.FixtureRequest) -> object:
    with use_lowering(request.param):
        yield


def as_tensor(data: bytes) -> tf.Tensor:
    return tf.constant(np.frombuffer(data, np.uint8))


@given(st.binary(max_size=70))
@settings(deadline=None)
def test_frame_gives_the_bytes_of_the_wire_format_and_unframe_the_body(body: bytes) -> None:
    framed = framing.frame(as_tensor(body), "sparse/1", SPEC)
    assert framed.numpy().tobytes() == wire.frame(body, "sparse/1", "float32", (3, 5))
    assert framing.unframe(framed, "sparse/1", SPEC).numpy().tobytes() == body


@given(st.data())
@settings(deadline=None)
def test_a_changed_or_truncated_buffer_is_refused(data: st.DataObject) -> None:
    packed = bytearray(wire.frame(b"some body", "sparse/1", "float32", (3, 5)))
    if data.draw(st.booleans()):
        bit = data.draw(st.integers(0, 8 * len(packed) - 1))
        packed[bit // 8] ^= 1 << bit % 8
    else:
        packed = packed[: data.draw(st.integers(0, len(packed) - 1))]
    with pytest.raises(tf.errors.InvalidArgumentError):
        framing.unframe(as_tensor(bytes(packed)), "sparse/1", SPEC)


@pytest.mark.parametrize(
    ("wire_id", "dtype", "shape", "expected"),
    [
        ("sign/1", "float32", (3, 5), SPEC),
        ("sparse/1", "float64", (3, 5), SPEC),
        ("sparse/1", "float32", (5, 3), SPEC),
        ("sparse/2", "float32", (), tf.TensorSpec([], tf.float32)),  # the last byte of the header differs
    ],
)
def test_a_payload_for_something_else_is_refused(
    wire_id: str, dtype: str, shape: tuple[int, ...], expected: tf.TensorSpec
) -> None:
    buffer = as_tensor(wire.frame(b"body", wire_id, dtype, shape))
    with pytest.raises(tf.errors.InvalidArgumentError, match="made by another encoder or for another tensor"):
        framing.unframe(buffer, "sparse/1", expected)


@pytest.mark.parametrize("length", [3, 5, 2**32 + 4, 2**64 - 1])
def test_a_length_that_is_not_that_of_the_body_is_refused_though_the_checksum_is_right(length: int) -> None:
    content = wire.header("sparse/1", "float32", (3, 5)) + length.to_bytes(8, "little") + b"body"
    buffer = as_tensor(content + zlib.crc32(content).to_bytes(4, "little"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="length"):
        framing.unframe(buffer, "sparse/1", SPEC)


def test_a_graph_with_an_unknown_number_of_bytes_frames_and_unframes() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
    def there_and_back(body: tf.Tensor) -> tf.Tensor:
        return framing.unframe(framing.frame(body, "sparse/1", SPEC), "sparse/1", SPEC)

    for body in (b"", b"x", bytes(range(256)) * 40):
        assert there_and_back(as_tensor(body)).numpy().tobytes() == body
