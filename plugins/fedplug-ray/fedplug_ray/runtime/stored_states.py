"""Clients' states that a sharded store keeps, as values of TFF types: read and left behind by workers.

Arrays are named as everywhere else, by `structures.paths`.
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
    """Clients' states, as executors have values; neighbours of one home are fetched together.

    Raises:
        StoreError: One cannot be read.
    """
    paths = structures.paths(kind)
    return [
        ingest(structures.unflatten([arrays[path] for path in paths], kind), kind)
        for arrays in fetch(references)
    ]


def leave_states(references: Sequence[StateReference], values: Iterable[Any], kind: tff.Type) -> list[Staged]:
    """Leaves one value per client where their states are; returns when they are there.

    Args:
        references: Of the clients.
        values: As executors have them, one per client.
        kind: Their type.

    Raises:
        StoreError: A shard refuses.
    """
    paths = structures.paths(kind)
    leaves = (map(np.asarray, structures.flatten(value, kind)) for value in values)
    return stage(references, (dict(zip(paths, arrays, strict=True)) for arrays in leaves))
