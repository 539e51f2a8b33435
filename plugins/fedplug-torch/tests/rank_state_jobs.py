"""Jobs of ranks in tests of states that belong to a rank."""

from __future__ import annotations

import digits
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from digits import error_of
from fedplug_torch import FedplugState, GatheredState
from outer_jobs import Worker


def a_hook():
    """Returns the state of a hook after two steps."""
    ddp, state = digits.hooked("topk(0.05)", digits.network())
    for step in range(2):
        digits.loss_of(ddp, step, dist.get_rank()).backward()
    return state


def an_outer_step():
    """Returns an outer step after two exchanges."""
    worker = Worker(dist.get_rank(), "topk(0.1)", inner_steps=1)
    for _ in range(2):
        worker.train()
        worker.outer.step()
    return worker.outer


def load_the_state_of_rank_0(make):
    stateful = make()
    saved = [stateful.state_dict()]
    dist.broadcast_object_list(saved, src=0)
    return error_of(stateful.load_state_dict, saved[0])


def into_a_new_object(make, make_new, folder):
    saved, new = make(), make_new()
    dcp.save({"it": saved}, checkpoint_id=folder)
    dcp.load({"it": new}, checkpoint_id=folder)
    return dict(saved.state_dict()), dict(new.state_dict())


def a_new_hook():
    return FedplugState("topk(0.05)", digits.network())


def a_new_outer_step():
    return Worker(dist.get_rank(), "topk(0.1)", inner_steps=1).outer


def while_a_message_is_in_transit(folder):
    saved, new = (Worker(dist.get_rank(), "topk(0.1)", inner_steps=2, fragment_sync_delay=1) for _ in "12")
    saved.train()
    saved.outer.step()
    dcp.save({"it": saved.outer}, checkpoint_id=folder)
    return error_of(dcp.load, {"it": new.outer}, checkpoint_id=folder)


def gathered(saved=None):
    """Returns the states of a hook on all ranks, and the error of loading them."""
    dist.barrier()
    state = GatheredState(FedplugState("topk(0.1)", digits.network()))
    return state.state_dict(), error_of(state.load_state_dict, saved) if saved else None


def gathered_outer_steps(saved=None):
    """Returns the states of outer steps on all ranks, and the state of a rank after loading them."""
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
