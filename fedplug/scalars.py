"""Flattens nested metrics into numbers by name, as TensorBoard, MLflow and similar tools expect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["scalars"]


def scalars(metrics: Mapping[str, object], tensors: Sequence[Mapping[str, object]] = ()) -> dict[str, float]:
    """Returns the finite numbers in metrics by path.

    >>> scalars({"aggregator": {"uplink_bytes": 1024, "encoder": "topk"}})
    {'aggregator/uplink_bytes': 1024.0}

    Args:
        metrics: JSON values from `fedplug_round_finished` or `TensorMetrics.value`. Values other than finite
            numbers are left out. The numbers of a list are named by their positions.
        tensors: The model's tensors (`StatefulClientsProcess.tensors`). Lists of per-tensor metrics use their
            names instead of positions: ``"aggregator/tensors/nmse/dense/kernel"``.
    """
    names = [str(tensor["name"]) for tensor in tensors]
    return {
        "/".join(path): float(value)
        for path, value in _leaves(metrics, (), names)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def _leaves(
    value: object, path: tuple[str, ...], names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _leaves(member, (*path, str(key)), names)
    elif isinstance(value, list | tuple):
        named = "tensors" in path and len(names) == len(value)
        for place, member in enumerate(value):
            yield from _leaves(member, (*path, names[place] if named else str(place)), names)
    else:
        yield path, value
