"""Measures how much of a waiting entry arrives with each `Memory` for residuals, and its cost.

The gradients are bfloat16. In every step, one entry is 1 and 999 entries are 0.001, and one entry is sent.
An entry that loses nothing was sent or is kept with 0.001 times the steps.

Usage: residual_memory.py. It writes results/residual_memory.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import torch
import torch.distributed as dist
from fedplug_torch import Codec, FedplugState, OuterStep, ReplicaHook, decode, fedplug_hook
from fedplug_torch.feedback import Feedback
from fedplug_torch.memory import Memory
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS, SIZE, SMALL = 2000, 1000, 1e-3
UPDATE = torch.full((SIZE,), SMALL, dtype=torch.bfloat16)
UPDATE[0] = 1
ENCODER = Codec("topk(count=1)", min_size=0)


def exchanged(memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what an outer step sends and keeps of each entry, in all steps together."""
    parameter = torch.nn.Parameter(torch.zeros(SIZE, dtype=torch.bfloat16))
    outer = OuterStep(
        {"x": parameter},
        ENCODER,
        inner_steps=1,
        optimizer=torch.optim.SGD([parameter], lr=0.0),
        memory=memory,
    )
    sent = torch.zeros(SIZE, dtype=torch.float64)
    for _ in range(STEPS):
        with torch.no_grad():
            parameter.copy_(-UPDATE)
        payloads = outer.encode()
        sent += decode(payloads["x"]).double()
        outer.apply({"worker": payloads})
    return sent, outer.state_dict()["fragment 0/codec/x/residual"].double()


def rounded_to_nearest() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the same for residuals that are rounded to the nearest number of bfloat16."""
    state, sent = None, torch.zeros(SIZE, dtype=torch.float64)
    for step in range(STEPS):
        payload, state = ENCODER.encode(UPDATE, state, step)
        sent += decode(payload).double()
        state["residual"] = state["residual"].bfloat16().float()
    return sent, state["residual"].double()


def bytes_per_element(memory: Memory) -> list[float]:
    """Returns the memory of residuals between two steps of `OuterStep`, `ReplicaHook` and `FedplugState`."""
    model = torch.nn.Linear(SIZE, 100, bias=False, dtype=torch.bfloat16)
    outer = OuterStep(model, ENCODER, inner_steps=1, memory=memory)
    ddp = DistributedDataParallel(torch.nn.Linear(SIZE, 100, bias=False, dtype=torch.bfloat16))
    state = FedplugState(ENCODER, ddp, memory=memory)
    ddp.register_comm_hook(state, fedplug_hook)
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    sharded = torch.nn.Linear(SIZE, 100, bias=False, dtype=torch.bfloat16)
    fully_shard(sharded, mesh=mesh["shard"])
    hook = ReplicaHook(ENCODER, sharded, process_group=mesh.get_group("replicate"), memory=memory)
    for _ in range(3):
        outer.step()
        for each in (ddp, sharded):
            each(torch.ones(1, SIZE, dtype=torch.bfloat16)).sum().backward()
    keepers = *(part.feedback for part in (*outer._fragments, *hook._units)), state._feedback
    return [_held(keeper) / model.weight.numel() for keeper in keepers]


def _held(feedback: Feedback) -> int:
    """Returns the bytes of all residuals that are kept."""
    states = filter(None, vars(feedback.residuals).values())
    return sum(array.nbytes for state in states for key, array in state.items() if key.endswith("residual"))


def _row(name: str, sent: torch.Tensor, kept: torch.Tensor, memory: list[str]) -> str:
    expected = STEPS * float(UPDATE[1])
    arrived, total = sent[1:] / expected, (sent + kept)[1:] / expected
    cells = [f"{arrived.mean():.1%}", f"{total.mean():.1%}", f"{total.std():.1%}", f"{total.min():.1%}"]
    return f"| {' | '.join([name, *cells, *memory])} |"


def main() -> None:
    """Prints and writes the table."""
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    rows = [
        "| `memory=` | sent | sent or kept | standard deviation | least entry | `OuterStep` | `ReplicaHook` "
        "| `FedplugState` |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        _row("bfloat16, rounded to nearest", *rounded_to_nearest(), ["", "", ""]),
    ]
    for memory in get_args(Memory):
        sizes = [f"{size:g}" for size in bytes_per_element(memory)]
        rows.append(_row(f'`"{memory}"`', *exchanged(memory), sizes))
    dist.destroy_process_group()
    text = f"""# Memory of residuals

What was sent, or sent or kept, of the 999 entries that wait, in {STEPS:,} steps, and bytes of residuals per
element between two steps. Made by `python benchmarks/residual_memory.py`.

{chr(10).join(rows)}
"""
    print(text)
    (Path(__file__).parent / "results/residual_memory.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
