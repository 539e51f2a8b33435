"""`fedplug_sketch.ops` on tensors: the compiled ops, and their references of stock TensorFlow ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fedplug.ops.lowering import op_library, resolve_lowering

__all__ = ["count_sketch", "estimate", "row_keys"]

tf.no_gradient("FedplugSketch>CountSketch")
tf.no_gradient("FedplugSketch>Estimate")


def row_keys(rows: int, seed: int, round_num: tf.Tensor) -> tf.Tensor:
    high = tf.constant(seed << 32, tf.uint64) + tf.cast(round_num, tf.uint64)
    return _mix(_mix(high) + tf.cast(tf.range(1, rows + 1), tf.uint64))


def count_sketch(x: tf.Tensor, keys: tf.Tensor, columns: int) -> tf.Tensor:
    if resolve_lowering() == "fused":
        return _library().fedplug_sketch_count_sketch(x, keys, columns)
    signs, places = _signs_and_columns(tf.size(x), keys, columns)
    rows = [
        tf.math.unsorted_segment_sum(tf.where(signs[r], -x, x), places[r], columns)
        for r in range(keys.shape[0])
    ]
    return tf.stack(rows)


def estimate(table: tf.Tensor, keys: tf.Tensor, size: int) -> tf.Tensor:
    if resolve_lowering() == "fused":
        return _library().fedplug_sketch_estimate(table, keys, size)
    signs, places = _signs_and_columns(size, keys, table.shape[1])
    values = tf.gather(table, places, axis=1, batch_dims=1)
    ascending = tf.sort(tf.where(signs, -values, values), axis=0)
    rows = keys.shape[0]
    if rows % 2:
        return ascending[rows // 2]
    return ascending[rows // 2 - 1] / 2 + ascending[rows // 2] / 2


def _library() -> Any:
    return op_library("sketch")


def _signs_and_columns(size: tf.Tensor | int, keys: tf.Tensor, columns: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Bool and int64 ``[rows, size]``. True stands for minus."""
    hashes = _mix(tf.cast(tf.range(size), tf.uint64)[tf.newaxis] + keys[:, tf.newaxis])
    one = tf.constant(1, tf.uint64)
    scaled = _shifted(hashes, 32) * tf.constant(columns, tf.uint64)
    return tf.bitwise.bitwise_and(hashes, one) == one, tf.cast(_shifted(scaled, 32), tf.int64)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 30)) * tf.constant(0xBF58476D1CE4E5B9, tf.uint64)
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 27)) * tf.constant(0x94D049BB133111EB, tf.uint64)
    return tf.bitwise.bitwise_xor(x, _shifted(x, 31))


def _shifted(x: tf.Tensor, places: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, tf.constant(places, tf.uint64))
