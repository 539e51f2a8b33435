"""Tensors to try an encoder with. Must not know what is tried."""

from __future__ import annotations

from collections.abc import Iterable

from fedplug.ops import Array, Spec

__all__ = ["normal_numbers"]


def normal_numbers(specs: Iterable[Spec]) -> list[Array]:
    """Tensors to try an encoder with, always the same: normal numbers, or zeros where they are not floats."""
    import tensorflow as tf  # must not be needed to import the encoders

    def numbers(spec: Spec, seed: int) -> Array:
        if not spec.dtype.is_floating:
            return tf.zeros(spec.shape, spec.dtype)
        return tf.cast(tf.random.stateless_normal(spec.shape, [seed, 0]), spec.dtype)

    return [numbers(spec, seed) for seed, spec in enumerate(specs)]
