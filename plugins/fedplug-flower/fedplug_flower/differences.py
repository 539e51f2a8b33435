"""Updates of a model, as differences between two `ArrayRecord`s. Must not know of messages or of payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

__all__ = ["between", "moved", "shapes"]

Differences = Mapping[str, NDArray[Any]]


def shapes(model: ArrayRecord) -> dict[str, tuple[int, ...]]:
    """Of the model's arrays, by name."""
    return {name: tuple(array.shape) for name, array in model.items()}


def between(trained: ArrayRecord, received: ArrayRecord) -> dict[str, NDArray[np.float32]]:
    """``trained - received``, of one array after the other, in the order of ``received``.

    Args:
        trained: Arrays of numbers; the names and shapes of ``received``.
        received: The model that training began with.

    Returns:
        The differences by name, in float32 whatever the model is of: they are subtracted before they are
        rounded, and what a payload holds is a few bits of each. One dtype in all rounds, as Flower's averages
        are float64 where the first model has whole numbers.

    Raises:
        ValueError: Names, shapes or kinds differ; the message says where.
    """
    _require_same_names(trained, received)
    return {name: _difference(name, _read(name, trained[name]), received[name].numpy()) for name in received}


def moved(model: ArrayRecord, update: Differences) -> ArrayRecord:
    """``model + update``, in the dtypes of Flower's averages: of whole numbers, float64."""
    return ArrayRecord({name: _sum(array.numpy(), update[name]) for name, array in model.items()})


def _require_same_names(trained: ArrayRecord, received: ArrayRecord) -> None:
    if missing := sorted(received.keys() - trained.keys()):
        raise ValueError(f"array {missing[0]!r} of the model is missing")
    if unknown := sorted(trained.keys() - received.keys()):
        raise ValueError(f"array {unknown[0]!r} is not in the model that the server sent")


def _read(name: str, array: Array) -> NDArray[Any]:
    """Of untrusted bytes, which NumPy refuses with errors of many kinds."""
    try:
        return array.numpy()
    except Exception as error:
        raise ValueError(f"array {name!r} cannot be read: {error}") from error


def _difference(name: str, after: NDArray[Any], before: NDArray[Any]) -> NDArray[np.float32]:
    if after.shape != before.shape:
        raise ValueError(f"array {name!r} has shape {after.shape}, the server's has {before.shape}")
    for array in (after, before):
        if array.dtype.kind not in "fiub":
            raise ValueError(f"array {name!r} is of {array.dtype}, not of numbers that can be averaged")
    # In floats, in float64 if need be: unsigned whole numbers would wrap around.
    wide = np.result_type(after, before, np.float32)
    difference: NDArray[Any] = np.subtract(after, before, dtype=wide)
    return difference.astype(np.float32, copy=False)


def _sum(array: NDArray[Any], update: NDArray[Any]) -> Array:
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    return Array(
        np.asarray(np.add(array, update, dtype=np.result_type(dtype, update))).astype(dtype, copy=False)
    )
