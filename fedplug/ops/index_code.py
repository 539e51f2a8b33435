"""Rice code for strictly ascending indices: the compiled ops and their twins. Must not know what is indexed.

The layout of a code is specified in csrc/core/index_code.h: the parameter ``b``, the ``b`` low bits of every
gap, then every gap without them in unary. All positions are computed at once; no loop runs over indices or
bytes.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._checks import after, as_int64, require, require_vectors
from fedplug.ops.lowering import resolve_lowering

__all__ = ["decode_indices", "encode_indices"]

_MAX_PARAMETER = 30
_MAX_SIZE = 2**31 - 1
_TOO_SHORT = "index code: it is too short for this many indices"

tf.no_gradient("Fedplug>EncodeIndices")
tf.no_gradient("Fedplug>DecodeIndices")


def encode_indices(indices: Any, size: Any, *, lowering: str | None = None) -> tf.Tensor:
    """The shortest Rice code of strictly ascending indices.

    Source: Rice & Plaunt, IEEE Trans. Commun. 1971; Golomb, IEEE Trans. Inf. Theory 1966.

    Args:
        indices: Strictly ascending, in ``[0, size)``; shape ``[c]``, int32.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The code; shape ``[bytes]``, uint8; empty for no indices.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the indices do not ascend, or leave ``[0, size)``.
    """
    indices = tf.convert_to_tensor(indices, tf.int32)
    size = as_int64(size)
    require_vectors(indices=indices)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_encode_indices(indices, size)
    return _encode_twin(indices, size)


def decode_indices(code: Any, count: Any, size: Any, *, lowering: str | None = None) -> tf.Tensor:
    """The inverse of `encode_indices`, for bytes that nobody vouches for.

    Args:
        code: Shape ``[bytes]``, uint8.
        count: The number of indices in the code; integer scalar.
        size: The number of elements the indices point into, below 2^31; integer scalar.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Returns:
        The indices, strictly ascending, in ``[0, size)``; shape ``[count]``, int32.

    Raises:
        ValueError: A static rank is wrong.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the bytes are not what `encode_indices` writes for any
            ``count`` indices below ``size``. Memory is asked for only in proportion to the bytes.
    """
    code = tf.convert_to_tensor(code, tf.uint8)
    count = as_int64(count)
    size = as_int64(size)
    require_vectors(code=code)
    if resolve_lowering(lowering) == "fused":
        return _loader.library().fedplug_decode_indices(code, count, size)
    return _decode_twin(code, count, size)


def _encode_twin(indices: Any, size: Any) -> tf.Tensor:
    gaps = _gaps(after(_index_checks(indices, size), indices))
    b = _best_parameter(gaps)
    header = tf.cast(tf.repeat(b, tf.minimum(tf.size(indices), 1)), tf.uint8)
    low = tf.bitwise.right_shift(gaps[:, tf.newaxis], tf.range(b)) & 1
    ones = _positions(tf.bitwise.right_shift(gaps, b))
    unary = tf.scatter_nd(ones[:, tf.newaxis], tf.ones_like(ones), [_end(ones)])
    return tf.concat([header, _pack(tf.reshape(low, [-1])), _pack(unary)], 0)


def _decode_twin(code: Any, count: Any, size: Any) -> tf.Tensor:
    count = after(_count_checks(code, count, size), count)
    b = tf.reduce_sum(tf.cast(code[:1], tf.int64))
    low_bytes = _bytes(count * b)
    body = after(_header_checks(code, count, b, low_bytes), code[1:])
    low_bits, unary_bits = _unpack(body[:low_bytes]), _unpack(body[low_bytes:])
    ones = tf.where(tf.equal(unary_bits, 1))[:, 0]
    ones = after(_body_checks(low_bits[count * b :], unary_bits, ones, count), ones)
    low = tf.reshape(low_bits[: count * b], [count, b])
    low = tf.reduce_sum(tf.bitwise.left_shift(low, tf.range(tf.cast(b, tf.int32))), 1)
    # Capped twice, so that no hostile gap overflows anything; what reaches a cap is refused as an index.
    high = tf.bitwise.left_shift(tf.minimum(_gaps(ones), _MAX_SIZE + 1), b)
    gaps = tf.minimum(high + tf.cast(low, tf.int64), _MAX_SIZE + 1)
    indices = _positions(gaps)
    in_range = require(tf.reduce_all(indices < size), "index code: an index is not below", size)
    best = _best_parameter(tf.cast(after([in_range], gaps), tf.int32))
    shortest = require(
        tf.equal(b, tf.cast(best, tf.int64)), "index code: it is not the shortest one; parameter", b
    )
    return tf.cast(after([in_range, shortest], indices), tf.int32)


def _best_parameter(gaps: Any) -> Any:
    """The smallest ``b`` with the fewest bits, ``count * (b + 1) + sum(gaps >> b)``; scalar, int32.

    This is convex in ``b``: one step saves ``sum(ceil((gaps >> b) / 2))`` bits, which never grows, and costs
    ``count``. So the first step that does not pay ends the search, at 30 at the latest.
    """
    count = tf.size(gaps, tf.int64)

    def pays(b: Any) -> Any:
        saved = tf.bitwise.right_shift(gaps, b) - tf.bitwise.right_shift(gaps, b + 1)
        return tf.reduce_sum(tf.cast(saved, tf.int64)) > count

    return tf.while_loop(pays, lambda b: (b + 1,), (tf.constant(0),), maximum_iterations=_MAX_PARAMETER)[0]


def _index_checks(indices: Any, size: Any) -> list[Any]:
    inside = (indices >= 0) & (tf.cast(indices, tf.int64) < size)
    return [
        _size_check(size),
        require(tf.reduce_all(inside), "indices must be in [0, size)", indices, size),
        require(tf.reduce_all(indices[1:] > indices[:-1]), "indices must ascend strictly", indices),
    ]


def _count_checks(code: Any, count: Any, size: Any) -> list[Any]:
    return [
        _size_check(size),
        require((count >= 0) & (count <= size), "count must be in [0, size]", count, size),
        # An index costs at least one bit; so nothing that is computed is larger than the bytes justify.
        require(count // 8 <= tf.size(code, tf.int64), _TOO_SHORT, count),
    ]


def _header_checks(code: Any, count: Any, b: Any, low_bytes: Any) -> list[Any]:
    length = tf.size(code, tf.int64)
    shortest = tf.minimum(count, 1) + low_bytes + _bytes(count)
    return [
        require((count > 0) | tf.equal(length, 0), "index code: bytes where no index was announced", length),
        require(b <= _MAX_PARAMETER, "index code: its parameter is above 30", b),
        require(shortest <= length, _TOO_SHORT, count),
    ]


def _body_checks(padding: Any, unary_bits: Any, ones: Any, count: Any) -> list[Any]:
    found = tf.size(ones, tf.int64)
    return [
        require(
            tf.reduce_all(tf.equal(padding, 0)), "index code: the padding after the low bits is not zero"
        ),
        require(tf.equal(found, count), "index code: indices found and announced", found, count),
        require(
            tf.equal(8 * _bytes(_end(ones)), tf.size(unary_bits, tf.int64)),
            "index code: bytes follow its end",
        ),
    ]


def _size_check(size: Any) -> Any:
    return require((size >= 0) & (size <= _MAX_SIZE), "size must be in [0, 2^31)", size)


def _gaps(positions: Any) -> Any:
    """How many places are left out before each of the ascending ``positions``."""
    before = tf.concat([[-1], positions], 0)[:-1]
    return positions - before - 1


def _positions(gaps: Any) -> Any:
    """The inverse of `_gaps`."""
    return tf.cumsum(gaps + 1) - 1


def _end(positions: Any) -> Any:
    """One past the last of the ascending ``positions``; 0 when there are none."""
    return tf.concat([[-1], positions], 0)[-1] + 1


def _bytes(bits: Any) -> Any:
    return (bits + 7) // 8


def _pack(bits: Any) -> Any:
    """Bits (int32) to bytes, least significant bit first; the last byte is filled up with zeros."""
    filled = tf.pad(bits, [[0, -tf.size(bits) % 8]])
    return tf.cast(tf.reduce_sum(tf.reshape(filled, [-1, 8]) * [1 << i for i in range(8)], 1), tf.uint8)


def _unpack(code: Any) -> Any:
    """Bytes to bits (int32), least significant bit first."""
    return tf.reshape(tf.bitwise.right_shift(tf.cast(code, tf.int32)[:, tf.newaxis], tf.range(8)) & 1, [-1])
