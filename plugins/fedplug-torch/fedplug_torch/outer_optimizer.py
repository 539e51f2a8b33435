"""Steps of an outer optimizer that can be taken back."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

__all__ = ["revocable"]

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
                    state[mine] = _copied(state.pop(p))
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


def _replace(changed: dict[Any, Any], items: Mapping[object, object]) -> None:
    changed.clear()
    changed.update(items)


def _copied(value: object) -> Any:
    """Returns a copy of an optimizer's state of a parameter."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return copy.deepcopy(value)
