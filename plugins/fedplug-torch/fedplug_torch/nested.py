"""Converts nested values, such as an optimizer's state dictionary, to flat tensors and a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from fedplug.errors import ArgumentError, StateError
from fedplug_torch.shards import local_shard
from fedplug_torch.tensors import as_array

__all__ = ["Nested", "contiguous_copy", "flatten", "unflatten"]

Nested: TypeAlias = Any
"""Dictionaries, lists and tuples of tensors, numbers and texts, which cannot be typed in a useful way."""

_TEXT_BYTES = 4096
"""Texts have a multiple of this size: torch.distributed.checkpoint loads tensors of the saved size."""


def flatten(value: object, name: str) -> dict[str, torch.Tensor]:
    """Copies a nested value to flat tensors, for `safetensors.torch.save_file`.

    Args:
        value: Tensors (of DTensors, this rank's shards), numbers, texts and None, in dictionaries, lists and
            tuples.
        name: The key of the text that holds everything but the tensors, and the prefix of their keys.

    Raises:
        ArgumentError: A value has another type. The message says where it is.
    """
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_form(value, name, tensors)).encode()
    text = text.ljust(-(-len(text) // _TEXT_BYTES) * _TEXT_BYTES)
    return {name: torch.frombuffer(bytearray(text), dtype=torch.uint8), **tensors}


def unflatten(state: Mapping[str, torch.Tensor], name: str) -> tuple[Nested, set[str]]:
    """Rebuilds the value of `flatten` from copies of the tensors; also returns the used keys.

    Raises:
        StateError: The text or one of its tensors is missing or damaged.
    """
    used = {name}
    try:
        return _value(json.loads(as_array(state[name]).tobytes()), state, used), used
    except (ArgumentError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StateError(f"{name!r} of the state cannot be read: {error}") from error


def contiguous_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy in C order, as safetensors requires."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _form(value: object, path: str, tensors: dict[str, torch.Tensor]) -> Nested:
    """Returns a value as JSON, and adds its tensors to ``tensors``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        value = local_shard(value)
        while path in tensors:  # keys may contain a slash, too
            path += "+"
        tensors[path] = contiguous_copy(value)
        return {"tensor": path, "strides": torch.empty_like(value, device="meta").stride()}
    if isinstance(value, Mapping):
        items = value.items()
        return {"dict": [[_form(k, path, tensors), _form(v, f"{path}/{k}", tensors)] for k, v in items]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_form(item, f"{path}/{place}", tensors) for place, item in enumerate(value)]}
    raise ArgumentError(f"{path}: a {type(value).__name__} cannot be saved in a state dictionary of tensors")


def _value(form: object, state: Mapping[str, torch.Tensor], used: set[str]) -> Nested:
    """Rebuilds a value from the result of `_form`."""
    if not isinstance(form, dict):
        return form
    if "tensor" in form:
        used.add(form["tensor"])
        tensor = state[form["tensor"]]
        # Strides determine an optimizer's loops, and so the last bits of its results.
        restored = torch.empty_strided(tensor.shape, form["strides"], dtype=tensor.dtype, device="cpu")
        return restored.copy_(tensor)
    if "dict" in form:
        return {_value(k, state, used): _value(v, state, used) for k, v in form["dict"]}
    kind = list if "list" in form else tuple
    return kind(_value(item, state, used) for item in form[kind.__name__])
