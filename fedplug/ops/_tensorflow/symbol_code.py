"""`fedplug.ops.symbol_code` on tensors.

The reference has one loop over groups of symbols, one symbol for each lane. Everything else is computed at
once.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.kernels.arguments import whole
from fedplug.ops._tensorflow import loader
from fedplug.ops._tensorflow.arguments import after, as_bytes, as_int64, require, require_vectors
from fedplug.ops._tensorflow.index_code import decode_indices, encode_indices
from fedplug.ops._tensorflow.packing import pack, packed_size, unpack_all
from fedplug.ops._tensorflow.traced import traced_once
from fedplug.ops.lowering import resolve_lowering
from fedplug.ops.types import Array, Scalar


def encode_symbols(packed: Array, count: Scalar, *, bits: Scalar, lowering: str | None = None) -> tf.Tensor:
    packed, count, bits = _symbols("packed", packed, count, bits)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_encode_symbols(packed, count, bits)
    return _encode(packed, count, bits)


def decode_symbols(code: Array, count: Scalar, *, bits: Scalar, lowering: str | None = None) -> tf.Tensor:
    code, count, bits = _symbols("code", code, count, bits)
    if resolve_lowering(lowering) == "fused":
        return loader.library().fedplug_decode_symbols(code, count, bits)
    return _decode(code, count, bits)


def _symbols(name: str, data: Array, count: Scalar, bits: Scalar) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Converts the arguments of both ops, and checks all that is known while a graph is built."""
    data, count = as_bytes(name, data), as_int64("count", count)
    require_vectors(**{name: data})
    return data, count, as_int64("bits", bits if tf.is_tensor(bits) else whole("bits", bits, 1, 8))


_SCALE_BITS = 12
_SCALE = 2**_SCALE_BITS
_LOWEST = 2**16
_MAX_COUNT = 2**31 - 1
_MANY_SYMBOLS = 2**16
_STATE_BYTES = 4
_WORD_BYTES = 2


@traced_once
def _encode(packed: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    count, bits = _sizes_checked(count, bits)
    symbols = _symbols_of(packed, count, bits)
    as_they_are = tf.concat([tf.zeros([1], tf.uint8), packed], 0)

    def shorter() -> tf.Tensor:
        code = _encode_by_rans(symbols, count, bits)
        return tf.cond(tf.size(code) < tf.size(as_they_are), lambda: code, lambda: as_they_are)

    return tf.cond(count > 0, shorter, lambda: as_they_are)


@traced_once
def _decode(code: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    count, bits = _sizes_checked(count, bits)
    code = after([require(tf.size(code) >= 1, "symbol code: it is empty")], code)
    table_bytes = tf.reduce_sum(tf.cast(code[:1], tf.int64))
    return tf.cond(
        table_bytes > 0,
        lambda: _decode_by_rans(code[1:], table_bytes, count, bits),
        lambda: _as_it_is(code[1:], count, bits),
    )


def _sizes_checked(count: tf.Tensor, bits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns count and bits after checking them."""
    return after([_count_check(count)], count), after([_bits_check(bits)], bits)


def _symbols_of(packed: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Unpacks the symbols, ``[count]`` int32. Refuses bytes that are not ``count`` packed symbols."""
    symbols = unpack_all(after([_packed_check(packed, count, bits)], packed), bits)
    return after([_unused_check(symbols[count:])], tf.cast(symbols[:count], tf.int32))


def _as_it_is(packed: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Returns ``packed`` if it is ``count`` symbols, and refuses it otherwise."""
    unused = unpack_all(after([_packed_check(packed, count, bits)], packed), bits)[count:]
    return after([_unused_check(unused)], packed)


def _encode_by_rans(symbols: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    frequencies = _frequencies(symbols, count, bits)
    bars = tf.cumsum(frequencies + 1)[:-1] - 1
    table = encode_indices(tf.cast(bars, tf.int32), _places(bits))

    lanes = _lanes(count)
    groups = (count + lanes - 1) // lanes
    filled = tf.pad(symbols, [[0, groups * lanes - count]])
    grouped = tf.reshape(filled, [groups, lanes])
    here = tf.reshape(tf.range(groups * lanes) < count, [groups, lanes])
    # A lane without a symbol in the last group divides, too, by a number other than 0.
    frequency = tf.maximum(tf.gather(frequencies, grouped), 1)
    start = tf.gather(tf.cumsum(frequencies, exclusive=True), grouped)

    def step(group: tf.Tensor, states: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        full = here[group] & (states >= frequency[group] * 2 ** (32 - _SCALE_BITS))
        words = words.write(tf.cast(group, tf.int32), tf.where(full, states % _LOWEST, -1))
        states = tf.where(full, states // _LOWEST, states)
        coded = states // frequency[group] * _SCALE + start[group] + states % frequency[group]
        return group - 1, tf.where(here[group], coded, states), words

    _, states, words = tf.while_loop(
        lambda group, states, words: group >= 0,
        step,
        (groups - 1, tf.fill([lanes], tf.constant(_LOWEST, tf.int64)), _array(groups)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), None),
    )
    words = tf.reshape(words.stack(), [-1])
    words = tf.boolean_mask(words, words >= 0)
    header = tf.cast(tf.size(table), tf.uint8)[tf.newaxis]
    return tf.concat([header, table, _to_bytes(states, _STATE_BYTES), _to_bytes(words, _WORD_BYTES)], 0)


def _decode_by_rans(body: tf.Tensor, table_bytes: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    lanes = _lanes(count)
    words_at = table_bytes + _STATE_BYTES * lanes
    rest = tf.size(body, tf.int64) - words_at
    fits = (count > 0) & (rest >= 0) & tf.equal(rest % _WORD_BYTES, 0)
    body = after([require(fits, "symbol code: these are not frequencies, states and words")], body)
    bar_count = _symbol_count(bits) - 1
    bars = decode_indices(body[:table_bytes], bar_count, _places(bits))
    ends = tf.concat([tf.cast(bars, tf.int64) - tf.range(bar_count), [_SCALE]], 0)
    starts = tf.concat([[0], ends[:-1]], 0)
    symbol_at = tf.repeat(tf.range(_symbol_count(bits)), ends - starts)
    frequency_at = tf.gather(ends - starts, symbol_at)
    place_at = tf.range(_SCALE, dtype=tf.int64) - tf.gather(starts, symbol_at)

    states = _from_bytes(body[table_bytes:words_at], _STATE_BYTES)
    low = require(tf.reduce_all(states >= _LOWEST), "symbol code: a state is below 2^16")
    words = _from_bytes(body[words_at:], _WORD_BYTES)
    word_count = tf.size(words, tf.int64)
    words = tf.concat([words, [0]], 0)  # read if there are too few words, and refused at the end
    groups = (count + lanes - 1) // lanes

    def step(group: tf.Tensor, states: tf.Tensor, used: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
        here = group * lanes + tf.range(lanes) < count
        residue = states % _SCALE
        symbols = symbols.write(tf.cast(group, tf.int32), tf.cast(tf.gather(symbol_at, residue), tf.int64))
        taken = tf.gather(frequency_at, residue) * (states // _SCALE) + tf.gather(place_at, residue)
        short = here & (taken < _LOWEST)
        used_up_to = used + tf.cumsum(tf.cast(short, tf.int64))
        word = tf.gather(words, tf.clip_by_value(used_up_to - 1, 0, word_count))
        states = tf.where(here, tf.where(short, taken * _LOWEST + word, taken), states)
        return group + 1, states, used_up_to[-1], symbols

    _, states, used, symbols = tf.while_loop(
        lambda group, states, used, symbols: group < groups,
        step,
        (tf.constant(0, tf.int64), after([low], states), tf.constant(0, tf.int64), _array(groups)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([]), None),
    )
    at_end = tf.equal(used, word_count) & tf.reduce_all(tf.equal(states, _LOWEST))
    ended = require(at_end, "symbol code: it does not end with its symbols")
    decoded = tf.reshape(after([ended], symbols.stack()), [-1])[:count]
    return pack(tf.cast(decoded, tf.uint8), bits)


def _frequencies(symbols: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """The frequency of every symbol in parts of 4096. ``[2^bits]`` int64."""
    counts = tf.math.unsorted_segment_sum(tf.ones_like(symbols, tf.int64), symbols, _symbol_count(bits))
    different = tf.math.count_nonzero(counts)
    rare = (counts > 0) & (counts * (_SCALE - different) < count)
    sharing = tf.cumsum(tf.where(rare, tf.zeros_like(counts), counts))
    ends = sharing * (_SCALE - tf.math.count_nonzero(rare)) // sharing[-1]
    return ends - tf.concat([[0], ends[:-1]], 0) + tf.cast(rare, tf.int64)


def _symbol_count(bits: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.left_shift(tf.constant(1, tf.int64), tf.cast(bits, tf.int64))


def _lanes(count: tf.Tensor) -> tf.Tensor:
    return tf.where(count < _MANY_SYMBOLS, tf.constant(4, tf.int64), tf.constant(32, tf.int64))


def _places(bits: tf.Tensor) -> tf.Tensor:
    """The number of stars and bars together."""
    return _SCALE + _symbol_count(bits) - 1


def _array(groups: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.int64, tf.cast(groups, tf.int32), element_shape=[None], infer_shape=False)


def _to_bytes(values: tf.Tensor, width: int) -> tf.Tensor:
    """The ``width`` lowest bytes of every int64, little-endian."""
    return tf.reshape(tf.bitcast(values, tf.uint8)[:, :width], [-1])


def _from_bytes(data: tf.Tensor, width: int) -> tf.Tensor:
    """Inverts `_to_bytes`."""
    rows = tf.reshape(data, [-1, width])
    return tf.bitcast(tf.pad(rows, [[0, 0], [0, 8 - width]]), tf.int64)


def _bits_check(bits: tf.Tensor) -> tf.Tensor:
    return require((bits >= 1) & (bits <= 8), "a symbol has 1 to 8 bits, not", bits)


def _packed_check(packed: tf.Tensor, count: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    wanted = packed_size(count, bits)
    return require(
        tf.equal(tf.size(packed, tf.int64), wanted), "packed symbols of this count take", wanted, "bytes"
    )


def _unused_check(unused: tf.Tensor) -> tf.Tensor:
    return require(tf.reduce_all(tf.equal(unused, 0)), "bits are set after the last symbol")


def _count_check(count: tf.Tensor) -> tf.Tensor:
    return require((count >= 0) & (count <= _MAX_COUNT), "count must be in [0, 2^31)", count)
