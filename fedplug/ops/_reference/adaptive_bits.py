"""Bits by how likely they are, in a rANS code of one state, in stock TensorFlow ops.

What csrc/core/codes/adaptive_bits.h does, which the references of gaps and of symbols share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["LOWEST", "SCALE", "SCALE_BITS", "STATE_BYTES", "encoded", "in_graph", "taken"]

SCALE_BITS = 12
SCALE = 2**SCALE_BITS
LOWEST = 2**16
STATE_BYTES = 3


def in_graph(function: Callable[..., tf.Tensor], vector: Any, *scalars: Any) -> tf.Tensor:
    """Calls it with int64 scalars; what is run eagerly becomes a graph first: there loops are much faster."""
    if not tf.executing_eagerly():
        return function(vector, *scalars)
    return _traced(function, vector.dtype, len(scalars))(vector, *scalars)


@functools.cache
def _traced(function: Callable[..., tf.Tensor], dtype: tf.DType, scalars: int) -> Callable[..., tf.Tensor]:
    signature = [tf.TensorSpec([None], dtype)] + [tf.TensorSpec([], tf.int64)] * scalars
    traced: Callable[..., tf.Tensor] = tf.function(function, input_signature=signature, autograph=False)
    return traced


def encoded(start: Any, frequency: Any) -> tf.Tensor:
    """State and bytes of shares, ``frequency`` of 4096 after ``start`` others, the first to be read first."""
    steps = tf.size(start)

    def step(i: Any, state: Any, found: Any) -> Any:
        full = state >= frequency[i] * 2**SCALE_BITS
        found = found.write(i, tf.where(full, state % 256, -1))
        state = tf.where(full, state // 256, state)
        return i - 1, state // frequency[i] * SCALE + state % frequency[i] + start[i], found

    _, state, found = tf.while_loop(
        lambda i, *_: i >= 0,
        step,
        (steps - 1, tf.constant(LOWEST, tf.int64), tf.TensorArray(tf.int64, steps, element_shape=[])),
    )
    places = tf.constant([0, 8, 16], tf.int64)
    head = tf.bitwise.right_shift(tf.repeat(state, STATE_BYTES), places) % 256
    found = found.stack()
    return tf.cast(tf.concat([head, tf.boolean_mask(found, found >= 0)], 0), tf.uint8)


def taken(padded: Any, state: Any, at: Any, start: Any, frequency: Any) -> tuple[Any, Any]:
    """State and place in the bytes after a share was taken out.

    Args:
        padded: The bytes, and a zero that is read where there are no more; int64.
        state: Before; int64 scalar.
        at: Of the next byte; int32 scalar.
        start: Of the share.
        frequency: Of the share; 4096 takes nothing.
    """
    state = frequency * (state // SCALE) + state % SCALE - start
    short = state < LOWEST
    state = tf.where(short, state * 256 + padded[tf.minimum(at, tf.size(padded) - 1)], state)
    return state, at + tf.cast(short, tf.int32)
