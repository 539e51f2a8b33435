"""Jobs of ranks in tests of states for trainers of other libraries."""

from __future__ import annotations

import digits
import torch.distributed as dist
from fedplug_torch import FedplugState, GatheredState
from outer_jobs import Worker
from streaming_jobs import error_of


def gathered(saved=None):
    """Returns the states of a hook on all ranks, and the error of loading them."""
    dist.barrier()
    state = GatheredState(FedplugState("topk(0.1)", digits.network()))
    return state.state_dict(), error_of(state.load_state_dict, saved) if saved else None


def gathered_outer_steps(saved=None):
    """Returns the states of outer steps on all ranks, and what a rank has after loading them."""
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=2)
    state = GatheredState(worker.outer)
    if saved:
        state.load_state_dict(saved)
    else:
        for _ in range(4):
            worker.train()
            worker.outer.step()
    mine = worker.outer.state_dict()
    return state.state_dict(), (
        worker.outer.outer_step,
        any(mine[key].any() for key in mine if key.endswith("/residual")),
    )
