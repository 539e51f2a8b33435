"""The local shards of DTensors, such as the parameters of ``fully_shard``.

A shard is encoded like a tensor of its own. States record which shard of which tensor they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from fedplug.errors import ArgumentError, StateError
from fedplug_torch.tensors import as_array

__all__ = ["SHARDS", "as_dtensor", "is_dtensor", "local_shard", "require_shards", "shards_of", "text_of"]

SHARDS = "shards"
"""The key of the text that says which shards a state belongs to."""


def is_dtensor(value: object) -> bool:
    """Returns whether a value is a DTensor, without importing ``torch.distributed.tensor``."""
    return isinstance(value, torch.Tensor) and hasattr(value, "to_local")


def local_shard(value: Any) -> Any:
    """Returns this rank's shard of a DTensor, on the same memory. Any other value unchanged.

    Raises:
        ArgumentError: The DTensor is a partial sum, which no rank has yet.
    """
    if not is_dtensor(value):
        return value
    if any(placement.is_partial() for placement in value.placements):
        raise ArgumentError(
            f"a DTensor with the placements {value.placements} is a sum that is not computed yet; pass "
            "tensor.redistribute(placements=[Shard(0)]) or another placement without Partial()"
        )
    with torch.no_grad():
        shard: torch.Tensor = value.detach().to_local()
    return shard


def as_dtensor(shard: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns the DTensor with this local shard, sharded like another. The shard if that is no DTensor."""
    if not is_dtensor(like):
        return shard
    placed: Any = like
    made: torch.Tensor = type(placed).from_local(
        shard, placed.device_mesh, placed.placements, run_check=False, shape=like.shape, stride=like.stride()
    )
    return made


def shards_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Describes the shard of each DTensor by its shape, offsets and the whole shape."""
    found = {}
    for name, tensor in tensors.items():
        if is_dtensor(tensor):
            (chunk,) = tensor.__create_chunk_list__()
            found[name] = f"{list(chunk.sizes)} at {list(chunk.offsets)} of {list(tensor.shape)}"
    return found


def text_of(shards: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """Returns the entry of a state that describes its shards. Nothing without DTensors."""
    if not shards:
        return {}
    return {SHARDS: torch.frombuffer(bytearray(json.dumps(shards).encode()), dtype=torch.uint8)}


def require_shards(
    state: Mapping[str, torch.Tensor] | None, shards: Mapping[str, str]
) -> Mapping[str, torch.Tensor] | None:
    """Returns the state without its description of shards.

    Raises:
        StateError: The state belongs to other shards of these tensors, or of whole tensors.
    """
    if not shards or not isinstance(state, Mapping) or not state:
        return state
    try:
        saved = json.loads(as_array(state[SHARDS]).tobytes())
        wrong = {name: saved.get(name) for name in shards if saved.get(name) != shards[name]}
    except (ArgumentError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"the state does not say which shards it belongs to: {error!r}") from error
    for name, found in wrong.items():
        raise StateError(f"the state is of another shard of {name!r}: expected {shards[name]}, found {found}")
    return {key: tensor for key, tensor in state.items() if key != SHARDS}
