"""Arrays of random numbers to measure encoders with."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import fedplug.ops as ops
from fedplug.ops.types import Array, Spec

__all__ = ["normal_numbers"]


def normal_numbers(specs: Iterable[Spec]) -> list[Array]:
    """Returns the same arrays in every call: normal numbers for floats, and zeros for other dtypes."""

    def numbers(spec: Spec, seed: int) -> Array:
        zeros = ops.zeros(spec)
        if not ops.is_floating(spec.dtype):
            return zeros
        return ops.asarray(np.random.default_rng(seed).standard_normal(zeros.shape), like=zeros)

    return [numbers(spec, seed) for seed, spec in enumerate(specs)]
