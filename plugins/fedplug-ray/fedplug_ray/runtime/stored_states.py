"""Reads and stages clients' states of a sharded store, as values of TFF types, on a worker.

The names of the arrays are those of `structures.paths`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow_federated as tff

from fedplug.stores.sharded.staging import Staged
from fedplug.tff import structures
from fedplug.tff.runtime.inprocess.values import ingest
from fedplug_ray.shards.references import StateReference, fetch, stage

__all__ = ["leave_state", "read_state"]


def read_state(reference: StateReference, kind: tff.Type) -> Any:
    """Returns a client's state as an executor value.

    Raises:
        StoreError: The state cannot be read.
    """
    (arrays,) = fetch([reference])
    return ingest(structures.unflatten([arrays[path] for path in structures.paths(kind)], kind), kind)


def leave_state(reference: StateReference, value: Any, kind: tff.Type) -> Staged:
    """Stages a value of a client on the machines of the client's state.

    Args:
        reference: The reference to the client's state.
        value: An executor value.
        kind: The type of the value.

    Raises:
        StoreError: A shard refuses the value.
    """
    arrays = map(np.asarray, structures.flatten(value, kind))
    (staged,) = stage([reference], [dict(zip(structures.paths(kind), arrays, strict=True))])
    return staged
