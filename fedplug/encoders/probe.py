"""Tensors to try an encoder with. Must not know what is tried."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

__all__ = ["normal_numbers"]


def normal_numbers(specs: Iterable[tf.TensorSpec]) -> list[tf.Tensor]:
    """Tensors to try an encoder with, always the same: normal numbers, or zeros where they are not floats."""

    def numbers(spec: tf.TensorSpec, seed: int) -> tf.Tensor:
        if not spec.dtype.is_floating:
            return tf.zeros(spec.shape, spec.dtype)
        return tf.cast(tf.random.stateless_normal(spec.shape, [seed, 0]), spec.dtype)

    return [numbers(spec, seed) for seed, spec in enumerate(specs)]
