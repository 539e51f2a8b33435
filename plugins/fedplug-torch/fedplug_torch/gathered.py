"""One state for all ranks, for trainers whose checkpoint is written by one rank."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist

from fedplug.errors import StateError
from fedplug_torch.ddp import FedplugState
from fedplug_torch.outer import OuterStep
from fedplug_torch.rank_state import ranks_of

__all__ = ["GatheredState"]


class GatheredState:
    """Saves and loads the states of all ranks of a `FedplugState` or an `OuterStep` as one dictionary.

    Residuals differ between ranks, while Lightning and Accelerate save objects of the first rank only. They
    take this object instead, because it has the same two methods.
    """

    def __init__(self, state: FedplugState | OuterStep) -> None:
        """Takes this rank's object."""
        self._state = state

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the states of all ranks on the first rank, and nothing on the others. All must call it."""
        rank, ranks = _place()
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
        rank, ranks = _place()
        if rank in ranks_of(saved) or not dist.is_initialized():
            self._state.load_state_dict(saved)
        elif saved and isinstance(self._state, OuterStep):
            self._state.join(saved)
        else:
            raise StateError(f"the checkpoint has no state for rank {rank} of {ranks}; see GatheredState")


def _place() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
