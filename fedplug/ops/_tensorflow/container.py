"""`fedplug.ops.container` on tensors."""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import as_bytes, as_int64, require_vectors
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.serialization import crc32, from_bytes, to_bytes
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar


def frame(body: Array, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    body = as_bytes("body", body)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_frame(body, header=header)
    return _frame(body, _constant(header))


def unframe(container: Array, header: bytes, *, lowering: str | None = None) -> tf.Tensor:
    container = as_bytes("container", container)
    require_vectors(container=container)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_unframe(container, header=header)
    return _unframe(container, _constant(header))


def _constant(header: bytes) -> tf.Tensor:
    return tf.constant(list(header), tf.uint8)


def sparse_body(count: Scalar, index_code: Array, values: Array, *, lowering: str | None = None) -> tf.Tensor:
    count = as_int64("count", count)
    index_code = as_bytes("index_code", index_code)
    values = as_bytes("values", values)
    require_vectors(index_code=index_code, values=values)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_sparse_body(count, index_code, values)
    return _join(count, index_code, values)


def split_sparse_body(
    body: Array, size: Scalar, *, lowering: str | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    body = as_bytes("body", body)
    size = as_int64("size", size)
    require_vectors(body=body)
    if resolve_lowering(lowering) == "fused":
        count, index_code, values = loader.library().fedplug_split_sparse_body(body, size)
        return count, index_code, values
    return _split(body, size)


_LENGTH_BYTES = 8
_CHECKSUM_BYTES = 4


@traced_once
def _frame(body: tf.Tensor, header: tf.Tensor) -> tf.Tensor:
    content = tf.concat([header, to_bytes(tf.size(body, tf.int64)), body], axis=0)
    return tf.concat([content, _checksum(content)], axis=0)


@traced_once
def _unframe(container: tf.Tensor, header: tf.Tensor) -> tf.Tensor:
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


_LONGEST_NUMBER = 5
_NUMBERS_END = 2**31


@traced_once
def _join(count: tf.Tensor, index_code: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    numbers = tf.stack([count, tf.size(index_code, tf.int64)])
    with require(
        tf.reduce_all((numbers >= 0) & (numbers < _NUMBERS_END)),
        "a sparse payload has less than 2^31 entries and bytes of their index code",
    ):
        return tf.concat([_to_leb128(numbers), index_code, values], axis=0)


@traced_once
def _split(body: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    head = tf.cast(body[: 2 * _LONGEST_NUMBER], tf.int64)
    is_last = head < 128
    ends = tf.where(is_last)[:2, 0] + 1
    starts = tf.concat([[0], ends[:-1]], axis=0)
    readable = tf.equal(tf.size(ends), 2) & tf.reduce_all(ends - starts <= _LONGEST_NUMBER)
    with require(readable, "the lengths in a sparse payload cannot be read"):
        end = ends[1]
    which = tf.cumsum(tf.cast(is_last, tf.int32), exclusive=True)[:end]
    place = tf.range(end) - tf.gather(starts, which)
    digits = head[:end] & 127
    numbers = tf.math.segment_sum(tf.bitwise.left_shift(digits, 7 * place), which)
    shortest = tf.reduce_all((digits > 0) | (place == 0) | ~is_last[:end]) & tf.reduce_all(
        numbers < _NUMBERS_END
    )
    with require(shortest, "the lengths in a sparse payload are not in their fewest bytes, or too large"):
        count, code_bytes = numbers[0], numbers[1]
    values_at = end + code_bytes
    fits = (count <= size) & (values_at <= tf.size(body, tf.int64))
    with require(fits, "the lengths in a sparse payload do not fit the payload or the tensor"):
        return tf.cast(count, tf.int32), body[end:values_at], body[values_at:]


def _to_leb128(numbers: tf.Tensor) -> tf.Tensor:
    """Writes each number of an int64 vector in the fewest bytes."""
    rests = tf.bitwise.right_shift(numbers[:, tf.newaxis], tf.range(0, 7 * _LONGEST_NUMBER, 7, tf.int64))
    more = tf.cast(rests >= 128, tf.int64) * 128
    used = (rests > 0) | (tf.range(_LONGEST_NUMBER) == 0)
    return tf.cast(tf.boolean_mask((rests & 127) | more, used), tf.uint8)
