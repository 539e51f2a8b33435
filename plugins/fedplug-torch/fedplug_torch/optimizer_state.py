"""Saves the state of an optimizer as flat tensors, and loads it with the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fedplug.errors import StateError
from fedplug_torch.nested import flatten
from fedplug_torch.shards import as_dtensor, local_shard

__all__ = ["flat_state", "load_unflattened"]


def flat_state(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], name: str
) -> dict[str, torch.Tensor]:
    """Copies the state of an optimizer of these parameters to flat tensors. See `flatten`."""
    return flatten([_form(optimizer, parameters), optimizer.state_dict()], name)


def load_unflattened(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], value: Any
) -> None:
    """Loads the result of `unflatten` with its dtypes. PyTorch would convert most to the parameter's.

    Raises:
        StateError: The state is of an optimizer of another class or other parameters. Nothing has changed.
    """
    form, saved = value
    if form != _form(optimizer, parameters):
        raise StateError(f"the state is of the outer optimizer {form}, not of {_form(optimizer, parameters)}")
    before = optimizer.__getstate__()
    try:
        optimizer.load_state_dict(saved)
        _restore(optimizer, saved)
    except BaseException as error:
        optimizer.__setstate__(before)
        if not isinstance(error, KeyError | ValueError):
            raise
        raise StateError(f"the outer optimizer does not take its state: {error}") from error


def _restore(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Gives the tensors of an optimizer's state the dtypes they were saved with."""
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    for index, loaded in optimizer.state_dict()["state"].items():
        loaded.update(_moved(saved["state"][index], loaded))
        for key, value in loaded.items():  # per-element values of a sharded parameter were saved as its shard
            if isinstance(value, torch.Tensor) and value.shape == local_shard(trained[index]).shape:
                loaded[key] = as_dtensor(value, trained[index])


def _form(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]) -> list[Any]:
    """Returns the class of the optimizer, and the parameter names in each of its groups."""
    names = {p: name for name, p in parameters.items()}
    groups = [[names[p] for p in group["params"]] for group in optimizer.param_groups]
    return [type(optimizer).__name__, groups]


def _moved(value: Any, like: Any) -> Any:
    """Returns the nested value with each tensor on the device of its counterpart."""
    if isinstance(value, torch.Tensor):
        return value.to(like.device)
    if isinstance(value, dict):
        return {key: _moved(item, like[key]) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(*both) for both in zip(value, like, strict=True))
    return value
