"""The form "adaptive" of csrc/core/symbol_code.h in stock TensorFlow ops; one loop runs over the symbols.

So it is slow, thousands of symbols a second: the probabilities follow from all symbols before.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops._reference.adaptive_bits import (
    LOWEST,
    SCALE,
    SCALE_BITS,
    STATE_BYTES,
    encoded,
    in_graph,
    taken,
)
from fedplug.ops._reference.symbol_code import as_it_is, sizes_checked, symbols_of
from fedplug.ops._reference.traced import traced_once
from fedplug.ops._tensorflow.arguments import after, require
from fedplug.ops._tensorflow.packing import pack, packed_size

__all__ = ["decode", "encode"]

_CLASSES = 8
_SIGNS, _HALVES, _QUARTERS, _CONTEXTS = 24, 32, 48, 66
_BLOCK = 2**16
_CERTAIN = 2**16
_LEAST = 16
_MEMORY = 127
_MOST_A_BYTE = 2048


@traced_once
def encode(packed: Any, count: Any, bits: Any) -> tf.Tensor:
    return in_graph(_encode_any, packed, *sizes_checked(count, bits))


@traced_once
def decode(code: Any, count: Any, bits: Any) -> tf.Tensor:
    return in_graph(_decode_any, code, *sizes_checked(count, bits))


def _encode_any(packed: Any, count: Any, bits: Any) -> tf.Tensor:
    symbols = tf.cast(symbols_of(packed, count, bits), tf.int64)
    code = tf.cond(count > 0, lambda: _encode(symbols, count, bits), lambda: packed)
    return tf.cond(tf.size(code) < tf.size(packed), lambda: code, lambda: packed)


def _decode_any(code: Any, count: Any, bits: Any) -> tf.Tensor:
    length, wanted = tf.size(code, tf.int64), packed_size(count, bits)
    shorter = (length < wanted) & (length > STATE_BYTES) & (count <= _MOST_A_BYTE * length)
    possible = tf.equal(length, wanted) | shorter
    code = after([require(possible, "symbol code: these bytes cannot hold so many symbols,", count)], code)
    return tf.cond(shorter, lambda: _decode(code, count, bits), lambda: as_it_is(code, count, bits))


def _encode(symbols: Any, count: Any, bits: Any) -> tf.Tensor:
    centre = _centre(symbols, bits)
    distance = _distance(symbols - centre, bits)
    size = tf.abs(distance)
    e = _class(size)
    ones, comes, bit = _probabilities(*_bits_of(distance, size, e, bits), count)
    # What does not come is as certain: it changes no state.
    start = tf.where(comes & tf.equal(bit, 0), ones, 0)
    frequency = tf.where(comes, tf.where(tf.equal(bit, 1), ones, SCALE - ones), SCALE)
    left = _raw_bits(e, bits)
    each = tf.bitwise.right_shift(tf.cast(SCALE, tf.int64), left)
    raw = size % tf.bitwise.left_shift(tf.ones_like(left), left) * each
    start = tf.concat([start, raw[:, tf.newaxis]], 1)
    frequency = tf.concat([frequency, each[:, tf.newaxis]], 1)

    def block(first: Any, code: Any) -> tuple[Any, Any]:
        starts, frequencies = (x[first : first + _BLOCK] for x in (start, frequency))
        comes = frequencies < SCALE
        of_it = encoded(tf.boolean_mask(starts, comes), tf.boolean_mask(frequencies, comes))
        return first + _BLOCK, tf.concat([code, of_it], 0)

    first = tf.constant(0, tf.int64), tf.cast(centre, tf.uint8)[tf.newaxis]
    shapes = tf.TensorShape([]), tf.TensorShape([None])
    return tf.while_loop(lambda first, _: first < count, block, first, shape_invariants=shapes)[1]


def _centre(symbols: Any, bits: Any) -> Any:
    every = tf.range(_power(bits))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(symbols), symbols, _power(bits))
    classes = _class(tf.abs(_distance(every - every[:, tf.newaxis], bits)))  # of [centre, symbol]
    return tf.argmin(tf.reduce_sum(classes * counts, 1))


def _distance(difference: Any, bits: Any) -> Any:
    half = _power(bits) // 2
    return (difference + half) % _power(bits) - half


def _class(size: Any) -> Any:
    powers = tf.constant([2**place for place in range(_CLASSES)], tf.int64)
    return tf.reduce_sum(tf.cast(size[..., tf.newaxis] >= powers, tf.int64), -1)


def _bits_of(distance: Any, size: Any, e: Any, bits: Any) -> tuple[Any, Any, Any]:
    """The bits of a symbol that have contexts: these, the bits, and whether they come; ``[n, 11]``."""
    before = tf.concat([[0], e[:-1]], 0) + tf.concat([[0, 0], e[:-2]], 0)[: tf.size(e)]
    half, quarter = (tf.bitwise.right_shift(size, tf.maximum(e - place, 0)) % 2 for place in (2, 3))
    places = tf.range(_CLASSES, dtype=tf.int64)
    above = tf.cast(e[:, tf.newaxis] > places, tf.int64)
    between = e < bits
    return (
        tf.concat([_near(before)[:, tf.newaxis] + places, _later_contexts(e, half)], 1),
        tf.concat([above, tf.stack([tf.cast(distance < 0, tf.int64), half, quarter], 1)], 1),
        tf.concat(
            [
                (places <= e[:, tf.newaxis]) & (places < bits),
                tf.stack([between & (e >= least) for least in (1, 2, 3)], 1),
            ],
            1,
        ),
    )


def _near(before: Any) -> Any:
    """Where the contexts of "above" begin."""
    return _CLASSES * (tf.cast(before > 0, tf.int64) + tf.cast(before > 2, tf.int64))


def _later_contexts(e: Any, half: Any) -> Any:
    return tf.stack([_SIGNS + e, _HALVES + e, _QUARTERS + 2 * e + half], -1)


def _raw_bits(e: Any, bits: Any) -> Any:
    return tf.where(e < bits, tf.maximum(e - 3, 0), 0)


def _begun() -> tuple[Any, Any]:
    """Probabilities, and how many bits taught them."""
    return tf.fill([_CONTEXTS], tf.constant(_CERTAIN // 2, tf.int64)), tf.zeros([_CONTEXTS], tf.int64)


def _probabilities(contexts: Any, bits: Any, comes: Any, count: Any) -> tuple[Any, Any, Any]:
    """That each bit is 1, in parts of 4096, as learnt from those before, ``[n, 11]``; and the other two."""

    def step(i: Any, one: Any, seen: Any, found: Any) -> Any:
        found = found.write(tf.cast(i, tf.int32), _share(one, contexts[i]))
        return i + 1, *_learn(one, seen, contexts[i], bits[i], comes[i]), found

    found = tf.TensorArray(tf.int64, tf.cast(count, tf.int32), element_shape=[_CLASSES + 3])
    *_, found = tf.while_loop(lambda i, *_: i < count, step, (tf.constant(0, tf.int64), *_begun(), found))
    return found.stack(), comes, bits


def _share(one: Any, context: Any) -> Any:
    return tf.clip_by_value(tf.bitwise.right_shift(tf.gather(one, context), 4), _LEAST, SCALE - _LEAST)


def _learn(one: Any, seen: Any, context: Any, bit: Any, comes: Any) -> tuple[Any, Any]:
    p, n = tf.gather(one, context), tf.gather(seen, context)
    rate = 2 * _CERTAIN // (2 * n + 3)
    up, down = (tf.bitwise.right_shift(distance * rate, 16) for distance in (_CERTAIN - p, p))
    places = context[:, tf.newaxis]
    p = tf.where(comes, tf.where(tf.equal(bit, 1), p + up, p - down), p)
    n = tf.where(comes, tf.minimum(n + 1, _MEMORY), n)
    return tf.tensor_scatter_nd_update(one, places, p), tf.tensor_scatter_nd_update(seen, places, n)


def _decode(code: Any, count: Any, bits: Any) -> tf.Tensor:
    code = tf.cast(code, tf.int64)
    length = tf.size(code)
    padded = tf.concat([code, tf.zeros([STATE_BYTES], tf.int64)], 0)

    def begun(state: Any, at: Any, fits: Any) -> tuple[Any, Any, Any]:
        three = padded[tf.minimum(at, length) :][:STATE_BYTES]
        read = tf.reduce_sum(three * [1, 2**8, 2**16])
        return read, at + STATE_BYTES, fits & tf.equal(state, LOWEST) & (read >= LOWEST)

    def step(i: Any, place: Any, learnt: Any, classes: Any, found: Any) -> Any:
        state, at, fits = tf.cond(tf.equal(i % _BLOCK, 0), lambda: begun(*place), lambda: place)
        contexts, values, present = [], [], []

        def bit(context: Any, comes: Any) -> Any:
            nonlocal state, at
            one = _share(learnt[0], context)
            value = tf.cast(comes & (state % SCALE < one), tf.int64)
            start = tf.where(comes & tf.equal(value, 0), one, 0)
            frequency = tf.where(comes, tf.where(tf.equal(value, 1), one, SCALE - one), SCALE)
            state, at = taken(padded, state, at, start, frequency)
            contexts.append(context)
            values.append(value)
            present.append(comes)
            return value

        near = _near(classes[0] + classes[1])
        e = tf.constant(0, tf.int64)
        for place_of in range(_CLASSES):
            e += bit(near + place_of, tf.equal(e, place_of) & (place_of < bits))
        between = e < bits
        negative = bit(_SIGNS + e, between & (e >= 1))
        half = bit(_HALVES + e, between & (e >= 2))
        quarter = bit(_QUARTERS + 2 * e + half, between & (e >= 3))
        left = _raw_bits(e, bits)
        raw = tf.bitwise.right_shift(state % SCALE, SCALE_BITS - left)
        each = tf.bitwise.right_shift(tf.constant(SCALE, tf.int64), left)
        state, at = taken(padded, state, at, raw * each, each)
        size = tf.where(e >= 1, tf.constant(1, tf.int64), 0)
        for more, value in ((e >= 2, half), (e >= 3, quarter)):
            size = tf.where(between & more, 2 * size + value, size)
        size = tf.bitwise.left_shift(size, left) + raw
        size = tf.where(between, size, _power(bits) // 2)
        found = found.write(tf.cast(i, tf.int32), tf.where(between & tf.equal(negative, 0), size, -size))
        learnt = _learn(learnt[0], learnt[1], tf.stack(contexts), tf.stack(values), tf.stack(present))
        return i + 1, (state, at, fits), learnt, (e, classes[0]), found

    zero = tf.constant(0, tf.int64)
    found = tf.TensorArray(tf.int64, tf.cast(count, tf.int32), element_shape=[])
    place = tf.constant(LOWEST, tf.int64), tf.constant(1), code[0] < _power(bits)
    _, (state, at, fits), _, _, found = tf.while_loop(
        lambda i, *_: i < count, step, (zero, place, _begun(), (zero, zero), found)
    )
    ended = fits & tf.equal(at, length) & tf.equal(state, LOWEST)
    checked = require(ended, "symbol code: it does not end with its symbols")
    symbols = (after([checked], found.stack()) + code[0]) % _power(bits)
    return pack(tf.cast(symbols, tf.uint8), bits)


def _power(bits: Any) -> Any:
    return tf.bitwise.left_shift(tf.constant(1, tf.int64), bits)
