"""The outer optimizer: steps that can be revoked, and its state as flat tensors with the same bits."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import torch

from fedplug.errors import StateError
from fedplug_torch.nested import Nested, flatten
from fedplug_torch.shards import as_dtensor, local_shard

__all__ = ["flat_state", "load_unflattened", "revocable"]

K = TypeVar("K")

StepOn = Callable[[Mapping[torch.Tensor, torch.Tensor]], None]


@contextlib.contextmanager
def revocable(optimizer: torch.optim.Optimizer) -> Iterator[StepOn]:
    """Yields a function that takes a step, which counts only if the body of the ``with`` ends without error.

    The function takes a copy of each parameter to step on, with its gradient, of any floating dtype. The
    optimizer does not see other parameters, and no parameter or gradient of the caller changes. After an
    error, the optimizer's state and hyperparameters are as before.
    """
    groups = [dict(group) for group in optimizer.param_groups]
    members = [list(group["params"]) for group in optimizer.param_groups]
    state = optimizer.state
    before = after = dict(state)

    def step_on(copies: Mapping[torch.Tensor, torch.Tensor]) -> None:
        nonlocal after
        stepped = {mine: p for p, mine in copies.items()}
        try:
            for group, all_members in zip(optimizer.param_groups, members, strict=True):
                group["params"][:] = [
                    copies[p] for p in all_members if p in copies
                ]  # the list stays the same
            for p, mine in copies.items():
                if p in state:
                    state[mine] = copy.deepcopy(state.pop(p))
            optimizer.step()
            after = {stepped.get(key, key): value for key, value in state.items()}
        finally:
            _replace(state, before)
            for group, all_members in zip(optimizer.param_groups, members, strict=True):
                group["params"][:] = all_members

    try:
        yield step_on
    except BaseException:
        for group, kept in zip(optimizer.param_groups, groups, strict=True):
            _replace(group, kept)
        raise
    _replace(state, after)


def _replace(changed: dict[K, object], items: Mapping[K, object]) -> None:
    changed.clear()
    changed.update(items)


def flat_state(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], name: str
) -> dict[str, torch.Tensor]:
    """Copies the state of an optimizer of these parameters to flat tensors. See `flatten`."""
    return flatten([_form(optimizer, parameters), optimizer.state_dict()], name)


def load_unflattened(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], value: Nested
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


def _restore(optimizer: torch.optim.Optimizer, saved: Mapping[str, Nested]) -> None:
    """Gives the tensors of an optimizer's state the dtypes they were saved with."""
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    for index, loaded in optimizer.state_dict()["state"].items():
        loaded.update(_moved(saved["state"][index], loaded))
        for key, value in loaded.items():  # per-element values of a sharded parameter were saved as its shard
            if isinstance(value, torch.Tensor) and value.shape == local_shard(trained[index]).shape:
                loaded[key] = as_dtensor(value, trained[index])


def _form(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]) -> list[Nested]:
    """Returns the class of the optimizer, and the parameter names in each of its groups."""
    names = {p: name for name, p in parameters.items()}
    groups = [[names[p] for p in group["params"]] for group in optimizer.param_groups]
    return [type(optimizer).__name__, groups]


def _moved(value: Nested, like: Nested) -> Nested:
    """Returns the nested value with each tensor on the device of its counterpart."""
    if isinstance(value, torch.Tensor):
        return value.to(like.device)
    if isinstance(value, dict):
        return {key: _moved(item, like[key]) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(*both) for both in zip(value, like, strict=True))
    return value
