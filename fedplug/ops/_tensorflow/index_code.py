"""`fedplug.ops.index_code` on tensors.

The reference of the Rice code computes all positions at once, without a loop over indices or bytes. "gaps"
has no reference.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import (
    after,
    as_bytes,
    as_indices,
    as_int64,
    refuse_without_op,
    require,
    require_form,
    require_vectors,
)
from fedplug.ops._tensorflow.packing import bits_of, numbers, pack, packed_size, unpack_all
from fedplug.ops._tensorflow.prng import shared_uniform
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, IndexForm, Scalar


def encode_indices(
    indices: Array, size: Scalar, *, form: IndexForm = "rice", lowering: str | None = None
) -> tf.Tensor:
    indices = as_indices("indices", indices)
    size = as_int64("size", size)
    require_vectors(indices=indices)
    require_form("index code", form, IndexForm)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_indices(indices, size, form=form)
    if form == "gaps":
        refuse_without_op("index coder", form, instead="rice")
    return _encode(indices, size)


def decode_indices(
    code: Array, count: Scalar, size: Scalar, *, form: IndexForm = "rice", lowering: str | None = None
) -> tf.Tensor:
    code = as_bytes("code", code)
    count = as_int64("count", count)
    size = as_int64("size", size)
    require_vectors(code=code)
    require_form("index code", form, IndexForm)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_indices(code, count, size, form=form)
    if form == "gaps":
        refuse_without_op("index coder", form, instead="rice")
    return _decode(code, count, size)


def draw_indices(seed: Scalar, count: Scalar, size: Scalar, *, lowering: str | None = None) -> tf.Tensor:
    seed, count, size = as_int64("seed", seed), as_int64("count", count), as_int64("size", size)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_draw_indices(seed, count, size)
    return _draw_indices(seed, count, size)


_MAX_PARAMETER = 30
_MAX_SIZE = 2**31 - 1
_TOO_SHORT = "index code: it is too short for this many indices"


@traced_once
def _encode(indices: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    indices = after(_index_checks(indices, size), indices)
    gaps = _gaps(indices)
    b = _best_parameter(gaps)
    header = tf.cast(tf.repeat(b, tf.minimum(tf.size(indices), 1)), tf.uint8)
    ones = _positions(tf.bitwise.right_shift(gaps, b))
    return tf.concat([header, pack(bits_of(gaps, b), 1), pack(_ones_at(ones, _end(ones)), 1)], 0)


@traced_once
def _decode(code: tf.Tensor, count: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    count = after(_count_checks(count, size), count)
    # An index needs at least one bit, so no tensor is larger than the bytes justify.
    count = after([require(count // 8 <= tf.size(code, tf.int64), _TOO_SHORT, count)], count)
    b = tf.reduce_sum(tf.cast(code[:1], tf.int64))
    low_bytes = packed_size(count, b)
    body = after(_header_checks(code, count, b, low_bytes), code[1:])
    low_bits, unary_bits = unpack_all(body[:low_bytes], 1), unpack_all(body[low_bytes:], 1)
    ones = tf.where(tf.equal(unary_bits, 1))[:, 0]
    ones = after(_body_checks(low_bits[count * b :], unary_bits, ones, count), ones)
    low = numbers(low_bits[: count * b], count, b)
    # Capped twice, so that no untrusted gap overflows. The check of the indices refuses capped values.
    high = tf.bitwise.left_shift(tf.minimum(_gaps(ones), _MAX_SIZE + 1), b)
    gaps = tf.minimum(high + tf.cast(low, tf.int64), _MAX_SIZE + 1)
    indices = _positions(gaps)
    in_range = require(tf.reduce_all(indices < size), "index code: an index is not below", size)
    best = _best_parameter(tf.cast(after([in_range], gaps), tf.int32))
    shortest = require(
        tf.equal(b, tf.cast(best, tf.int64)), "index code: it is not the shortest one; parameter", b
    )
    return tf.cast(after([in_range, shortest], indices), tf.int32)


def _best_parameter(gaps: tf.Tensor) -> tf.Tensor:
    """The smallest ``b`` with the fewest bits, ``count * (b + 1) + sum(gaps >> b)``. Scalar, int32.

    This is convex in ``b``: one step saves ``sum(ceil((gaps >> b) / 2))`` bits, which never grows, and costs
    ``count``. The search therefore ends with the first step that does not save bits, at 30 at the latest.
    """
    count = tf.size(gaps, tf.int64)

    def pays(b: tf.Tensor) -> tf.Tensor:
        saved = tf.bitwise.right_shift(gaps, b) - tf.bitwise.right_shift(gaps, b + 1)
        return tf.reduce_sum(tf.cast(saved, tf.int64)) > count

    return tf.while_loop(pays, lambda b: (b + 1,), (tf.constant(0),), maximum_iterations=_MAX_PARAMETER)[0]


def _index_checks(indices: tf.Tensor, size: tf.Tensor) -> list[tf.Tensor]:
    inside = (indices >= 0) & (tf.cast(indices, tf.int64) < size)
    return [
        _size_check(size),
        require(tf.reduce_all(inside), "indices must be in [0, size)", indices, size),
        require(tf.reduce_all(indices[1:] > indices[:-1]), "indices must ascend strictly", indices),
    ]


def _count_checks(count: tf.Tensor, size: tf.Tensor) -> list[tf.Tensor]:
    return [
        _size_check(size),
        require((count >= 0) & (count <= size), "count must be in [0, size]", count, size),
    ]


def _header_checks(code: tf.Tensor, count: tf.Tensor, b: tf.Tensor, low_bytes: tf.Tensor) -> list[tf.Tensor]:
    length = tf.size(code, tf.int64)
    shortest = tf.minimum(count, 1) + low_bytes + packed_size(count, 1)
    return [
        require((count > 0) | tf.equal(length, 0), "index code: bytes where no index was announced", length),
        require(b <= _MAX_PARAMETER, "index code: its parameter is above 30", b),
        require(shortest <= length, _TOO_SHORT, count),
    ]


def _body_checks(
    padding: tf.Tensor, unary_bits: tf.Tensor, ones: tf.Tensor, count: tf.Tensor
) -> list[tf.Tensor]:
    found = tf.size(ones, tf.int64)
    return [
        require(
            tf.reduce_all(tf.equal(padding, 0)), "index code: the padding after the low bits is not zero"
        ),
        require(tf.equal(found, count), "index code: indices found and announced", found, count),
        require(
            tf.equal(8 * packed_size(_end(ones), 1), tf.size(unary_bits, tf.int64)),
            "index code: bytes follow its end",
        ),
    ]


def _size_check(size: tf.Tensor) -> tf.Tensor:
    return require((size >= 0) & (size <= _MAX_SIZE), "size must be in [0, 2^31)", size)


def _gaps(positions: tf.Tensor) -> tf.Tensor:
    """The number of skipped elements before each of the ascending ``positions``."""
    before = tf.concat([[-1], positions], 0)[:-1]
    return positions - before - 1


def _positions(gaps: tf.Tensor) -> tf.Tensor:
    """Inverts `_gaps`."""
    return tf.cumsum(gaps + 1) - 1


def _end(positions: tf.Tensor) -> tf.Tensor:
    """One more than the last of the ascending ``positions``; 0 if there are none."""
    return tf.concat([[-1], positions], 0)[-1] + 1


def _ones_at(positions: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """``length`` bits, 1 at the positions. uint8 vector."""
    return tf.scatter_nd(positions[:, tf.newaxis], tf.ones_like(positions, tf.uint8), [length])


@traced_once
def _draw_indices(seed: tf.Tensor, count: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    valid = (count >= 0) & (count <= size) & (size < 2**31)
    message = "the count of random indices must be in [0, size], and size below 2^31"
    count = after([require(valid, message)], count)
    begins = tf.range(count + 1) * size // tf.maximum(count, 1)
    lengths = begins[1:] - begins[:-1]
    noise = shared_uniform(count, seed)
    offsets = tf.cast(tf.floor(noise * tf.cast(lengths, tf.float64)), tf.int64)
    return tf.cast(begins[:-1] + tf.minimum(offsets, lengths - 1), tf.int32)
