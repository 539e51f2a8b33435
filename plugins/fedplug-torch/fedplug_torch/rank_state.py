"""State dictionaries of several ranks, in files and in torch.distributed.checkpoint."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.distributed as dist

from fedplug.errors import StateError

__all__ = ["GatheredState", "RankState", "part_of", "ranks_of", "this_rank"]

_PREFIX = re.compile(r"rank (\d+)/")


class RankState(dict[str, torch.Tensor]):
    """The state dictionary of a rank, whose keys begin with the rank: ``"rank 1/step"``.

    torch.distributed.checkpoint keeps one of several entries with equal keys. States of several ranks can be
    joined by ``|``. The name alone, as in ``state["step"]``, finds an entry of this rank, too.
    """

    def __init__(self, entries: Mapping[str, torch.Tensor], rank: int | None) -> None:
        """Takes the entries by name, and the rank. None without torch.distributed leaves the names."""
        self._prefix = "" if rank is None else f"rank {rank}/"
        super().__init__({self._prefix + name: entries[name] for name in entries})

    def __missing__(self, name: str) -> torch.Tensor:
        key = self._prefix + name
        if key not in self:
            raise KeyError(name)
        return self[key]

    def __reduce_ex__(self, protocol: object) -> Any:  # `torch.load` reads no other classes by default
        return OrderedDict, (), None, None, iter(self.items())


class Stateful(Protocol):
    """A `FedplugState` or an `OuterStep`. The second one also has `OuterStep.join`."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the state of this rank."""

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Loads the state of this rank."""


class GatheredState:
    """Saves and loads the states of all ranks of a `FedplugState` or an `OuterStep` as one dictionary.

    Residuals differ between ranks, while Lightning and Accelerate save objects of the first rank only. They
    take this object instead, because it has the same two methods.
    """

    def __init__(self, state: Stateful) -> None:
        """Takes this rank's object."""
        self._state = state

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the states of all ranks on the first rank, and nothing on the others. All must call it."""
        rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        mine = self._state.state_dict()
        gathered: list[dict[str, torch.Tensor]] = [mine] * ranks
        if ranks > 1:
            dist.gather_object(mine, gathered if rank == 0 else None, dst=0)
        return {key: tensor for state in (gathered if rank == 0 else ()) for key, tensor in state.items()}

    def load_state_dict(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Loads this rank's part of the result of `state_dict`.

        If it has none, because there were fewer ranks, an `OuterStep` joins with the first rank's part.

        Raises:
            StateError: There is no part for this rank, or it does not fit.
        """
        rank = this_rank()
        if rank is None or rank in ranks_of(saved):
            self._state.load_state_dict(saved)
        elif saved and (join := getattr(self._state, "join", None)):
            join(saved)
        else:
            ranks = dist.get_world_size()
            raise StateError(f"the checkpoint has no state for rank {rank} of {ranks}; see GatheredState")


def this_rank() -> int | None:
    """Returns the rank of this process. None without torch.distributed."""
    return dist.get_rank() if dist.is_initialized() else None


def part_of(state: Mapping[str, torch.Tensor], rank: int | None, remedy: str) -> dict[str, torch.Tensor]:
    """Returns the entries of a rank by name.

    Args:
        state: The state of a rank, or of several ranks.
        rank: The rank. None for a process without torch.distributed.
        remedy: Says in the error how to go on with the state of another rank.

    Raises:
        StateError: The state is of other ranks.
    """
    found = ranks_of(state)
    if rank not in found:
        theirs, here = _named(*found), _named(rank)
        raise StateError(f"the state is of {theirs}, and this is {here}; every rank loads its own, {remedy}")
    prefix = "" if rank is None else f"rank {rank}/"
    return {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}


def ranks_of(state: Mapping[str, torch.Tensor]) -> list[int | None]:
    """Returns the ranks whose entries are in a state. None is a process without torch.distributed."""
    found = {int(match[1]) if (match := _PREFIX.match(key)) else None for key in state}
    return sorted(found, key=lambda rank: -1 if rank is None else rank) or [None]


def _named(*ranks: int | None) -> str:
    numbers = [str(rank) for rank in ranks if rank is not None]
    return f"rank {', '.join(numbers)}" if numbers else "a process without torch.distributed"
