"""Converts CUDA tensors to the codec's device arrays if fedplug-cuda is installed and finds a device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from fedplug.errors import CapabilityWarning, FedplugError
from fedplug.ops.device_array import is_on_device
from fedplug.registry import resolve
from fedplug_torch.shards import local_shard
from fedplug_torch.tensors import PLAIN, as_array, as_arrays, as_tensor, require_dense

__all__ = ["Operand", "as_operand", "as_operands", "as_result", "as_results"]

Operand: TypeAlias = Any
"""A NumPy array, or the device array of fedplug-cuda, which owns a tensor."""


def as_operand(tensor: torch.Tensor) -> Operand:
    """Converts a tensor for `fedplug.codec`; CUDA tensors of floats stay on their device.

    Of a DTensor it takes this rank's shard.

    Raises:
        ArgumentError: The tensor cannot be encoded. See `as_array`.
    """
    if type(tensor) not in PLAIN:
        tensor = local_shard(tensor)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda or not tensor.is_floating_point():
        return as_array(tensor)
    problem = _problem()
    if problem is not None:
        warnings.warn(
            f"CUDA tensors are copied to the host to be encoded, as fedplug-cuda cannot be used: {problem}",
            CapabilityWarning,
            stacklevel=2,
        )
        return as_array(tensor)
    require_dense(tensor)
    return _cuda().as_device_array(tensor.detach().contiguous().resolve_neg())


def as_operands(tensors: Mapping[str, torch.Tensor] | None) -> dict[str, Operand] | None:
    """Converts each tensor by `as_operand`. Codecs reject values that are not a mapping."""
    return as_arrays(tensors, as_operand) if isinstance(tensors, Mapping) else tensors


def as_result(array: Operand) -> torch.Tensor:
    """Converts an array from a codec to a tensor on the same device."""
    if type(array) is not np.ndarray and is_on_device(array):
        return array.owner
    return as_tensor(array)


def as_results(arrays: Mapping[str, Operand]) -> dict[str, torch.Tensor]:
    """Converts each array by `as_result`."""
    return {name: as_result(array) for name, array in arrays.items()}


@functools.cache
def _cuda() -> Any:
    return resolve.resolve("device", "cuda")


@functools.cache
def _problem() -> str | None:
    try:
        found: str | None = _cuda().problem()
    except FedplugError as error:
        return str(error)
    return found
