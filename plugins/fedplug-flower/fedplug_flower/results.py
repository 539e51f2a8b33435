"""Checks the result of a strategy's round, and undoes it if it is not finite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedplug.errors import NonFiniteError
from fedplug_flower.differences import read

__all__ = ["require_finite", "restore", "states_of"]

States = list[tuple[Strategy, dict[str, object]]]


def states_of(strategy: Strategy) -> States:
    """Returns the attributes of a strategy and of those it wraps. Each round replaces them."""
    inner = getattr(strategy, "strategy", None)
    return [(strategy, dict(vars(strategy))), *(states_of(inner) if isinstance(inner, Strategy) else [])]


def restore(states: States) -> None:
    """Restores the attributes of strategies."""
    for strategy, state in states:
        vars(strategy).update(state)


def require_finite(strategy: Strategy, result: ArrayRecord | None, model: ArrayRecord) -> None:
    """Raises NonFiniteError if an entry that was finite is not finite any more.

    Args:
        strategy: The strategy. Its moments must be finite, too, because they affect all later rounds.
        result: The next model.
        model: The model that was sent to the clients. Its constants may be infinite.
    """
    for name, array in (result or {}).items():
        broken = _nonfinite(read(name, array))
        if broken.any() and name in model and (sent := read(name, model[name])).shape == broken.shape:
            broken &= ~_nonfinite(sent)
        if broken.any():
            raise NonFiniteError(f"array {name!r} would hold a NaN or an infinity")
    for owner, state in states_of(strategy):
        for key, value in state.items():
            if any(_nonfinite(array).any() for array in _arrays(value)):
                raise NonFiniteError(f"{key!r} of {type(owner).__name__} would hold a NaN or an infinity")


def _nonfinite(array: NDArray[np.generic]) -> NDArray[np.bool_]:
    return ~np.isfinite(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _arrays(value: object) -> Iterator[NDArray[np.generic]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _arrays(part)
