"""The form "gaps" of csrc/core/index_code.h in stock TensorFlow ops; one loop runs over the indices.

So it is slow, thousands of indices a second: the probabilities follow from all gaps before.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._reference.adaptive_bits import (
    LOWEST,
    SCALE,
    STATE_BYTES,
    encoded,
    in_graph,
    taken,
)
from fedplug.ops._tensorflow.arguments import after, require

__all__ = ["decode", "encode"]

_LEVELS = 5
_HALVES, _QUARTERS, _CONTEXTS = 32, 64, 128
_LEAST = 32
_CERTAIN = 2**16
_PLACES = 30
_FAST, _SLOW = 4, 7
_RAW_BITS, _RAW_PARTS = 8, 4
_MOST_A_BYTE = 256


def encode(indices: Any, size: Any) -> tf.Tensor:
    return in_graph(_encode_any, tf.cast(indices, tf.int64), size)


def decode(code: Any, count: Any, size: Any) -> tf.Tensor:
    length = tf.size(code, tf.int64)
    possible = tf.where(count > 0, (length >= STATE_BYTES) & (count <= _MOST_A_BYTE * length), length == 0)
    code = after([require(possible, "index code: it cannot hold so many indices,", count)], code)
    return in_graph(_decode_any, code, count, size)


def _encode_any(indices: Any, size: Any) -> tf.Tensor:
    count = tf.size(indices, tf.int64)
    return tf.cond(count > 0, lambda: _encode(indices, count, size), lambda: tf.zeros([0], tf.uint8))


def _decode_any(code: Any, count: Any, size: Any) -> tf.Tensor:
    return tf.cond(count > 0, lambda: _decode(code, count, size), lambda: tf.zeros([0], tf.int32))


def _encode(indices: Any, count: Any, size: Any) -> tf.Tensor:
    number = indices - tf.concat([[-1], indices[:-1]], 0)
    e = _log2(number)
    contexts, bits, present = _bits_of(number, e, _log2(size))
    ones = _probabilities(contexts, bits, present, count, size)
    # What does not come is as certain: it changes no state.
    start = tf.where(present & (bits == 0), ones, 0)
    frequency = tf.where(present, tf.where(bits == 1, ones, SCALE - ones), SCALE)
    raw = [_raw_share(number, e, part) for part in range(_RAW_PARTS)]
    start = tf.reshape(tf.concat([start, tf.stack([s for s, _ in raw], 1)], 1), [-1])
    frequency = tf.reshape(tf.concat([frequency, tf.stack([f for _, f in raw], 1)], 1), [-1])
    comes = frequency < SCALE
    return encoded(tf.boolean_mask(start, comes), tf.boolean_mask(frequency, comes))


def _bits_of(number: Any, e: Any, top: Any) -> tuple[Any, Any, Any]:
    """The seven bits of a number that have contexts: these, the bits, and whether they come; ``[n, 7]``."""
    contexts, bits, present = [], [], []
    for level in range(_LEVELS):
        place = _LEVELS - 1 - level
        above = tf.bitwise.right_shift(e, place + 1)
        contexts.append(2**level + above)
        bits.append(tf.bitwise.right_shift(e, place) % 2)
        present.append(above * 2 ** (place + 1) + 2**place <= top)
    half, quarter = (tf.bitwise.right_shift(number, tf.maximum(e - place, 0)) % 2 for place in (1, 2))
    contexts += [_HALVES + e, _QUARTERS + 2 * e + half]
    bits += [half, quarter]
    present += [e >= 1, e >= 2]
    return tf.stack(contexts, 1), tf.stack(bits, 1), tf.stack(present, 1)


def _raw_share(number: Any, e: Any, part: int) -> tuple[Any, Any]:
    """Start and frequency of the bits of this part of the last ones, the highest part first."""
    left = tf.maximum(e - 2 - _RAW_BITS * part, 0)
    bits = tf.minimum(left, _RAW_BITS)
    each = tf.bitwise.right_shift(tf.ones_like(bits) * SCALE, bits)
    value = tf.bitwise.right_shift(number, left - bits) % tf.bitwise.left_shift(tf.ones_like(bits), bits)
    return value * each, each


def _probabilities(contexts: Any, bits: Any, present: Any, count: Any, size: Any) -> tf.Tensor:
    """That each bit is 1, in parts of 4096, as learnt from those before; ``[n, 7]``."""

    def step(i: Any, fast: Any, slow: Any, found: Any) -> Any:
        context = contexts[i]
        found = found.write(tf.cast(i, tf.int32), _mean(fast, slow, context))
        seen = context, bits[i], present[i]
        return i + 1, _learn(fast, *seen, _FAST), _learn(slow, *seen, _SLOW), found

    begun = _begun(count, size)
    found = tf.TensorArray(tf.int64, tf.cast(count, tf.int32), element_shape=[_LEVELS + 2])
    *_, found = tf.while_loop(lambda i, *_: i < count, step, (tf.constant(0, tf.int64), begun, begun, found))
    return found.stack()


def _mean(fast: Any, slow: Any, context: Any) -> Any:
    mean = tf.bitwise.right_shift(tf.gather(fast, context) + tf.gather(slow, context), 5)
    return tf.clip_by_value(mean, _LEAST, SCALE - _LEAST)


def _learn(probabilities: Any, context: Any, bits: Any, present: Any, shift: int) -> Any:
    p = tf.gather(probabilities, context)
    up, down = (tf.bitwise.right_shift(distance, shift) for distance in (_CERTAIN - p, p))
    p = tf.where(present, tf.where(tf.equal(bits, 1), p + up, p - down), p)
    return tf.tensor_scatter_nd_update(probabilities, context[:, tf.newaxis], p)


def _begun(count: Any, size: Any) -> tf.Tensor:
    """The probabilities for geometric gaps, in parts of 2^16; ``[128]``."""
    miss = tf.bitwise.left_shift(size - count, _PLACES) // tf.maximum(size, 1)
    survival = [tf.constant(2**_PLACES, tf.int64)]
    for _ in range(2**_LEVELS - 1):
        survival.append(_product(_product(survival[-1], survival[-1]), miss))
    survival.append(tf.constant(0, tf.int64))
    even = tf.constant(_CERTAIN // 2, tf.int64)
    shares = [even]
    for level in range(_LEVELS):
        width = 2 ** (_LEVELS - level)
        for first in range(0, 2**_LEVELS, width):
            below, middle, end = (survival[first + step] for step in (0, width // 2, width))
            shares.append(_share(middle - end, below - end))
    shares.append(even)
    for e in range(1, 2**_LEVELS):
        middle = _product(survival[e], _product(survival[e - 1], miss))
        shares.append(_share(tf.maximum(middle - survival[e + 1], 0), survival[e] - survival[e + 1]))
    return tf.stack(shares + [even] * (_CONTEXTS - _QUARTERS))


def _product(x: Any, y: Any) -> Any:
    return tf.bitwise.right_shift(x * y, _PLACES)


def _share(ones: Any, every: Any) -> Any:
    share = tf.where(every > 0, ones * _CERTAIN // tf.maximum(every, 1), _CERTAIN // 2)
    return tf.clip_by_value(share, 512, _CERTAIN - 512)


def _decode(code: Any, count: Any, size: Any) -> tf.Tensor:
    code = tf.cast(code, tf.int64)
    state = code[0] + 2**8 * code[1] + 2**16 * code[2]
    state = after([require(state >= LOWEST, "index code: its state is below 2^16")], state)
    length, top = tf.size(code), _log2(size)
    padded = tf.concat([code, [0]], 0)

    def step(i: Any, state: Any, at: Any, fast: Any, slow: Any, found: Any) -> Any:
        contexts, bits, present = [], [], []

        def bit(context: Any, comes: Any) -> Any:
            nonlocal state, at
            one = _mean(fast, slow, context)
            value = tf.where(comes & (state % SCALE < one), 1, 0)
            value = tf.cast(value, tf.int64)
            start = tf.where(comes & tf.equal(value, 0), one, 0)
            of_it = tf.where(tf.equal(value, 1), one, SCALE - one)
            state, at = taken(padded, state, at, start, tf.where(comes, of_it, SCALE))
            contexts.append(context)
            bits.append(value)
            present.append(comes)
            return value

        e = tf.constant(0, tf.int64)
        for level in range(_LEVELS):
            place = _LEVELS - 1 - level
            e += 2**place * bit(2**level + e // 2 ** (place + 1), e + 2**place <= top)
        half = bit(_HALVES + e, e >= 1)
        quarter = bit(_QUARTERS + 2 * e + half, e >= 2)
        number = tf.where(e >= 1, 2 + half, 1)
        number = tf.where(e >= 2, 2 * number + quarter, number)
        for part in range(_RAW_PARTS):
            raw_bits = tf.clip_by_value(e - 2 - _RAW_BITS * part, 0, _RAW_BITS)
            each = tf.bitwise.right_shift(tf.constant(SCALE, tf.int64), raw_bits)
            value = state % SCALE // each
            state, at = taken(padded, state, at, value * each, each)
            number = tf.bitwise.left_shift(number, raw_bits) + value
        found = found.write(tf.cast(i, tf.int32), number)
        seen = tf.stack(contexts), tf.stack(bits), tf.stack(present)
        return i + 1, state, at, _learn(fast, *seen, _FAST), _learn(slow, *seen, _SLOW), found

    begun = _begun(count, size)
    found = tf.TensorArray(tf.int64, tf.cast(count, tf.int32), element_shape=[])
    _, state, at, _, _, found = tf.while_loop(
        lambda i, *_: i < count,
        step,
        (tf.constant(0, tf.int64), state, tf.constant(STATE_BYTES), begun, begun, found),
    )
    indices = tf.cumsum(found.stack()) - 1
    checks = [
        require(tf.reduce_all(indices < size), "index code: an index is not below", size),
        require(
            tf.equal(at, length) & tf.equal(state, LOWEST), "index code: it does not end with its indices"
        ),
    ]
    return tf.cast(after(checks, indices), tf.int32)


def _log2(x: Any) -> Any:
    """The place of the highest bit of positive numbers below 2^31, int64; -1 of 0."""
    powers = tf.constant([2**place for place in range(31)], tf.int64)
    return tf.reduce_sum(tf.cast(tf.expand_dims(x, -1) >= powers, tf.int64), -1) - 1
