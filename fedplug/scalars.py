"""Nested metrics as numbers by name, as TensorBoard, MLflow and their like take them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["scalars"]


def scalars(metrics: Mapping[str, Any], tensors: Sequence[Mapping[str, Any]] = ()) -> dict[str, float]:
    """The finite numbers in metrics, such as ``{"aggregator/uplink_bytes": 1024.0}``.

    Args:
        metrics: JSON values, as `fedplug_round_finished` gets them, or `TensorMetrics.value` returns them.
            What is no finite number is left out; the numbers of a list are named by their places.
        tensors: Of the model, `StatefulClientsProcess.tensors`: their names stand in place of places where a
            list is one of per-tensor metrics, ``"aggregator/tensors/nmse/dense/kernel"``.
    """
    names = [str(tensor["name"]) for tensor in tensors]
    return {
        "/".join(path): float(value)
        for path, value in _leaves(metrics, (), names)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _leaves(value: Any, path: tuple[str, ...], names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _leaves(member, (*path, str(key)), names)
    elif isinstance(value, list | tuple):
        named = "tensors" in path and len(names) == len(value)
        for place, member in enumerate(value):
            yield from _leaves(member, (*path, names[place] if named else str(place)), names)
    else:
        yield path, value
