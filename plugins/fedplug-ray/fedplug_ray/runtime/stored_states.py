"""Reads and stages clients' states of a sharded store, as values of TFF types, on a worker.

The names of the arrays are those of `structures.paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fedplug.stores.sharded.staging import Staged
from fedplug.tff import structures
from fedplug.tff.runtime.inprocess.values import ingest
from fedplug_ray.shards.references import StateReference, fetch, stage

__all__ = ["leave_states", "read_states"]


def read_states(references: Sequence[StateReference], kind: tff.Type) -> list[Any]:
    """Returns clients' states as executor values; fetches neighbours with one home together.

    Raises:
        StoreError: A state cannot be read.
    """
    paths = structures.paths(kind)
    return [
        ingest(structures.unflatten([arrays[path] for path in paths], kind), kind)
        for arrays in fetch(references)
    ]


def leave_states(references: Sequence[StateReference], values: Iterable[Any], kind: tff.Type) -> list[Staged]:
    """Stages one value per client on the machines of the clients' states.

    Args:
        references: References to the clients' states.
        values: One executor value per client.
        kind: The type of the values.

    Raises:
        StoreError: A shard refuses a value.
    """
    paths = structures.paths(kind)
    leaves = (map(np.asarray, structures.flatten(value, kind)) for value in values)
    return stage(references, (dict(zip(paths, arrays, strict=True)) for arrays in leaves))
