"""The container of `fedplug.wire` inside TensorFlow graphs: what an encoder's bytes travel in.

The header of a tensor under an encoder is a constant of the graph, so that only length and checksum are
computed, and a reader refuses everything that was not made for exactly this tensor and encoder. Must not know
any encoder.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug import ops, wire
from fedplug.encoders import serialization
from fedplug.encoders.checks import require

__all__ = ["frame", "unframe"]

_LENGTH_BYTES = 8


def frame(body: tf.Tensor, wire_id: str, spec: tf.TensorSpec) -> tf.Tensor:
    """Wraps ``body`` as ``wire.pack(body, wire_id, dtype, shape)`` does; both are uint8 vectors."""
    header = _header(wire_id, spec)
    if ops.resolve_lowering() == "fused":
        return ops.frame(body, header)
    length = serialization.to_bytes(tf.size(body, tf.int64))
    content = tf.concat([_constant(header), length, body], axis=0)
    return tf.concat([content, _checksum(content)], axis=0)


def unframe(buffer: tf.Tensor, wire_id: str, spec: tf.TensorSpec) -> tf.Tensor:
    """The body of a container that was made by `frame` with the same ``wire_id`` and ``spec``.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs: the buffer is truncated, for another encoder,
            dtype or shape, or its checksum is wrong.
    """
    header = _header(wire_id, spec)
    if ops.resolve_lowering() == "fused":
        return ops.unframe(buffer, header)
    expected = _constant(header)
    body_at = expected.shape[0] + _LENGTH_BYTES
    name = f"{wire_id} payload for a {spec.dtype.name} tensor of shape {spec.shape}"
    with require(tf.size(buffer) >= body_at + wire.CHECKSUM_BYTES, f"a {name} is truncated"):
        buffer = tf.identity(buffer)
    with require(
        tf.reduce_all(buffer[: expected.shape[0]] == expected),
        f"the header of a {name} is wrong: corrupt, or made by another encoder or for another tensor",
    ):
        (length,) = tf.unstack(serialization.from_bytes(buffer[expected.shape[0] : body_at], tf.int64), num=1)
    content, checksum = buffer[: -wire.CHECKSUM_BYTES], buffer[-wire.CHECKSUM_BYTES :]
    intact = (length == tf.size(content, tf.int64) - body_at) & tf.reduce_all(_checksum(content) == checksum)
    with require(
        intact, f"the length or the checksum of a {name} is wrong: the bytes were changed on the way"
    ):
        return content[body_at:]


def _header(wire_id: str, spec: tf.TensorSpec) -> bytes:
    return wire.header(wire_id, spec.dtype.name, spec.shape.as_list())


def _constant(header: bytes) -> tf.Tensor:
    return tf.constant(list(header), tf.uint8)


def _checksum(content: tf.Tensor) -> tf.Tensor:
    return serialization.to_bytes(tf.cast(ops.crc32(content), tf.uint32))
