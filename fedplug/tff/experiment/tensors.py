"""The tensors of an experiment's model: their description, and their metrics in a round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedplug.encoders.model import tensor_metrics
from fedplug.stores.files import write_whole
from fedplug.tff.process import StatefulClientsProcess

__all__ = ["of_round", "write_model"]


def write_model(path: Path, dense_bytes: int, tensors: Sequence[Mapping[str, Any]]) -> None:
    """Writes the description of an update to a file.

    It is ``{"dense_bytes": int, "tensors": [{"name", "shape", "dtype"}, ...]}``.

    The arguments are the attributes of a `StatefulClientsProcess`.

    Raises:
        StoreError: The file cannot be written.
    """
    model = {"dense_bytes": dense_bytes, "tensors": list(tensors)}
    write_whole(path, json.dumps(model, indent=2) + "\n")


def of_round(process: StatefulClientsProcess, aggregated: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the aggregator's tensor metrics, ``{"tensors": {name: {...}}}``. Empty if there are none."""
    if "tensors" not in aggregated:
        return {}
    names = [tensor["name"] for tensor in process.tensors]
    return {"tensors": tensor_metrics.by_name(names, aggregated["tensors"])}
