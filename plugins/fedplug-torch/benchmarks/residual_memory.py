"""Measures how much of a waiting entry arrives with each `Memory` for residuals.

The gradients are bfloat16. In every step, one entry is 1 and 999 entries are 0.001, and one entry is sent.
An entry that loses nothing was sent or is kept with 0.001 times the steps.

Usage: residual_memory.py. It writes results/residual_memory.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import torch
from fedplug_torch import Codec, OuterStep, decode
from fedplug_torch.memory import Memory

STEPS, SIZE, SMALL = 2000, 1000, 1e-3
UPDATE = torch.full((SIZE,), SMALL, dtype=torch.bfloat16)
UPDATE[0] = 1
ENCODER = Codec("topk(count=1)", min_size=0)


def exchanged(memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what an outer step sends and keeps of each entry, in all steps together."""
    parameter = torch.nn.Parameter(torch.zeros(SIZE, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    outer = OuterStep({"x": parameter}, ENCODER, inner_steps=1, optimizer=optimizer, memory=memory)
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


def _row(name: str, sent: torch.Tensor, kept: torch.Tensor) -> str:
    expected = STEPS * float(UPDATE[1])
    arrived, total = sent[1:] / expected, (sent + kept)[1:] / expected
    return f"| {name} | {arrived.mean():.1%} | {total.mean():.1%} | {total.std():.1%} | {total.min():.1%} |"


def main() -> None:
    """Prints and writes the table."""
    torch.set_num_threads(1)
    rows = [_row("bfloat16, rounded to nearest", *rounded_to_nearest())]
    rows += [_row(f'`"{memory}"`', *exchanged(memory)) for memory in get_args(Memory)]
    text = f"""# Memory of residuals

Sums of what was sent, or sent or kept, of the 999 entries that wait, in {STEPS:,} steps. Made by
`python benchmarks/residual_memory.py`.

| `memory=` | sent | sent or kept | standard deviation | least entry |
| --- | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}
"""
    print(text)
    (Path(__file__).parent / "results/residual_memory.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
