"""Jobs that the ranks run in tests of payloads of a fixed size."""

from __future__ import annotations

import torch
import torch.distributed as dist
from fedplug_torch import FixedSize

import fedplug


def means(encoder, rounds, *, compiled=False, broken_rank=None):
    """Returns the means of some rounds, and what each rank has left at the end."""
    fixed = FixedSize(encoder)
    step = (
        torch.compile(fixed.all_reduce, backend="aot_eager", fullgraph=True) if compiled else fixed.all_reduce
    )
    generator = torch.Generator().manual_seed(dist.get_rank())
    residual, found, refused = None, [], []
    for number in range(rounds):
        x = torch.randn(3, 3000, generator=generator)
        if dist.get_rank() == broken_rank and number == 1:
            x[0, 5] = float("nan")
        mean, residual, non_finite = step(x, fixed.zeros(x) if residual is None else residual)
        found.append(mean.numpy())
        refused.append(int(non_finite))
    return found, residual.numpy(), refused


def codec_means(encoder, rounds):
    """The same means by `fedplug.codec`, from the payloads of both ranks made in this process."""
    codec, generators = fedplug.codec(encoder), [torch.Generator().manual_seed(rank) for rank in range(2)]
    states, found = [None, None], []
    for _ in range(rounds):
        total = fedplug.Sum((3, 3000))
        for rank, generator in enumerate(generators):
            payload, states[rank] = codec.encode(
                torch.randn(3, 3000, generator=generator).numpy(), states[rank]
            )
            total.add(payload)
        found.append(total.value() / 2)
    return found
