"""The reference of `fedplug.ops.container` in stock TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.reference.traced import traced_once
from fedplug.ops._tensorflow.serialization import crc32, from_bytes, to_bytes

__all__ = ["frame", "unframe"]

_LENGTH_BYTES = 8
_CHECKSUM_BYTES = 4


@traced_once
def frame(body: tf.Tensor, header: tf.Tensor) -> tf.Tensor:
    content = tf.concat([header, to_bytes(tf.size(body, tf.int64)), body], axis=0)
    return tf.concat([content, _checksum(content)], axis=0)


@traced_once
def unframe(container: tf.Tensor, header: tf.Tensor) -> tf.Tensor:
    header_bytes = tf.size(header)
    body_at = header_bytes + _LENGTH_BYTES
    enough = tf.size(container) >= body_at + _CHECKSUM_BYTES
    with require(enough, "a payload is truncated"):
        container = tf.identity(container)
    with require(
        tf.reduce_all(container[:header_bytes] == header),
        "the header of a payload is wrong: corrupt, or made by another encoder or for another tensor",
    ):
        (length,) = tf.unstack(from_bytes(container[header_bytes:body_at], tf.int64), num=1)
    content, checksum = container[:-_CHECKSUM_BYTES], container[-_CHECKSUM_BYTES:]
    intact = (length == tf.size(content, tf.int64) - tf.cast(body_at, tf.int64)) & tf.reduce_all(
        _checksum(content) == checksum
    )
    with require(
        intact, "the length or the checksum of a payload is wrong: the bytes were changed on the way"
    ):
        return content[body_at:]


def _checksum(content: tf.Tensor) -> tf.Tensor:
    return to_bytes(tf.cast(crc32(content), tf.uint32))
