"""`fedplug.ops.wide_symbols` on tensors. Costs are whole numbers, so that both choose alike."""

from __future__ import annotations

import math

import tensorflow as tf

from fedplug.ops._tensorflow.arguments import as_int64
from fedplug.ops._tensorflow.checks import require
from fedplug.ops._tensorflow.packing import pack, packed_size, unpack
from fedplug.ops.types import Scalar
from fedplug.ops.wide_layout import (
    BYTE_BITS,
    COST_UNIT,
    HEAD_BYTES,
    NO_BYTE,
    PLACE_BITS,
    RAREST,
    SAMPLE_BITS,
)


def pack_wide(symbols: tf.Tensor, bits: int) -> tf.Tensor:
    symbols, low_bits = tf.cast(symbols, tf.int32), bits - BYTE_BITS
    low = tf.cast(symbols % 2**low_bits, tf.uint8)
    return tf.concat([pack(low, low_bits), tf.cast(symbols // 2**low_bits, tf.uint8)], 0)


def unpack_wide(packed: tf.Tensor, count: Scalar, bits: int) -> tf.Tensor:
    count, low_bits = as_int64("count", count), bits - BYTE_BITS
    high_at = packed_size(count, low_bits)
    low = unpack(packed[:high_at], count, low_bits, "the low bits of symbols")
    high = unpack(packed[high_at:], count, BYTE_BITS, "the high bits of symbols")
    return tf.cast(high, tf.int32) * 2**low_bits + tf.cast(low, tf.int32)


def split_wide(packed: tf.Tensor, count: Scalar, bits: int) -> tuple[tf.Tensor, tf.Tensor]:
    count = as_int64("count", count)
    symbols = unpack_wide(packed, count, bits)
    shift, first, kept = _chosen(symbols[:: tf.maximum(count // 2**SAMPLE_BITS, 1)], bits)
    power = tf.bitwise.left_shift(1, tf.cast(shift, tf.int32))
    places = symbols // power
    at = places - tf.cast(first, tf.int32)
    has_byte = (at >= 0) & (at < NO_BYTE) & tf.gather(kept, tf.clip_by_value(at, 0, NO_BYTE - 1))
    apart = tf.boolean_mask(places, ~has_byte)
    aside = [
        _to_bytes(shift[tf.newaxis], 1),
        _to_bytes(first[tf.newaxis], 2),
        _to_bytes(tf.size(apart, tf.int64)[tf.newaxis], 4),
        tf.cond(
            shift > 0,
            lambda: pack(tf.cast(symbols % power, tf.uint8), shift),
            lambda: tf.zeros([0], tf.uint8),
        ),
        _to_bytes(tf.cast(apart, tf.int64), 2),
    ]
    return tf.concat(aside, 0), tf.cast(tf.where(has_byte, at, NO_BYTE), tf.uint8)


def split_aside(data: tf.Tensor, count: Scalar, bits: int) -> tuple[tf.Tensor, tf.Tensor]:
    count, size = as_int64("count", count), tf.size(data, tf.int64)
    with require(size >= HEAD_BYTES, "a code of wide symbols is too short to hold its head"):
        shift, _, number = _head(data)
    known = (shift <= bits - BYTE_BITS) & (number <= count)
    with require(known, "a code of wide symbols has a wrong shift, or too many symbols apart"):
        end = HEAD_BYTES + packed_size(count, shift) + 2 * number
    enough = size >= end
    with require(enough, "a code of wide symbols is too short to hold its low bits and places"):
        return data[:end], data[end:]


def join_wide(aside: tf.Tensor, found: tf.Tensor, count: Scalar, bits: int) -> tf.Tensor:
    count = as_int64("count", count)
    shift, first, number = _head(aside)
    places_at = HEAD_BYTES + packed_size(count, shift)
    apart = _from_bytes(aside[places_at:], 2)
    end = tf.bitwise.left_shift(tf.constant(1, tf.int64), bits - shift)
    exist = (first <= end - NO_BYTE) & tf.reduce_all(apart < end)
    with require(exist, "a code of wide symbols has a place that does not exist"):
        places = tf.cast(found, tf.int64) + first
    without = tf.where(tf.equal(found, NO_BYTE))
    same = tf.equal(tf.size(without, tf.int64), number)
    with require(same, "a code of wide symbols has not as many places as symbols without a byte"):
        symbols = tf.cast(tf.tensor_scatter_nd_update(places, without, apart), tf.int32)
    low = tf.cond(
        shift > 0,
        lambda: unpack(aside[HEAD_BYTES:places_at], count, shift, "the low bits of a code of symbols"),
        lambda: tf.zeros_like(found),
    )
    power = tf.bitwise.left_shift(1, tf.cast(shift, tf.int32))
    return pack_wide(symbols * power + tf.cast(low, tf.int32), bits)


def _head(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    shift, first, number = (_from_bytes(data[a:b], b - a)[0] for a, b in ((0, 1), (1, 3), (3, HEAD_BYTES)))
    return shift, first, number


def _chosen(sample: tf.Tensor, bits: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the shift, the first place, and which of the places from it on have a byte."""
    total = tf.size(sample, tf.int64)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(sample, tf.int64), sample, 2**bits)
    costs, firsts, keeps = [], [], []
    for shift in range(bits - BYTE_BITS + 1):
        if shift:
            counts = tf.reduce_sum(tf.reshape(counts, [-1, 2]), axis=1)
        up_to = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
        within = up_to[NO_BYTE:] - up_to[:-NO_BYTE]
        first = _first(tf.equal(within, tf.reduce_max(within)))
        window = counts[first : first + NO_BYTE]
        kept = (window > 0) & (window * RAREST >= total)
        common = tf.where(kept, window, tf.zeros_like(window))
        apart = total - tf.reduce_sum(common)
        cost = _cost(tf.concat([common, apart[tf.newaxis]], 0), total)
        costs.append(cost + COST_UNIT * (shift * total + PLACE_BITS * apart))
        firsts.append(first)
        keeps.append(kept)
    least = _first(tf.equal(tf.stack(costs), tf.reduce_min(tf.stack(costs))))
    return least, tf.stack(firsts)[least], tf.stack(keeps)[least]


def _cost(counts: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
    return total * _logarithms(total) - tf.reduce_sum(counts * _logarithms(counts))


def _logarithms(counts: tf.Tensor) -> tf.Tensor:
    of_one_or_more = tf.cast(tf.maximum(counts, 1), tf.float64)
    return tf.cast(tf.round(COST_UNIT * tf.math.log(of_one_or_more) / math.log(2)), tf.int64)


def _first(where: tf.Tensor) -> tf.Tensor:
    return tf.reduce_min(tf.where(where))


def _to_bytes(values: tf.Tensor, width: int) -> tf.Tensor:
    return tf.reshape(tf.bitcast(values, tf.uint8)[:, :width], [-1])


def _from_bytes(data: tf.Tensor, width: int) -> tf.Tensor:
    rows = tf.reshape(data, [-1, width])
    return tf.bitcast(tf.pad(rows, [[0, 0], [0, 8 - width]]), tf.int64)
