"""The lines of docs/torch.md run, with one rank."""

from __future__ import annotations

import re
from pathlib import Path

import fedplug_torch
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

PAGE = (Path(__file__).parents[3] / "docs/torch.md").read_text(encoding="utf-8")
HOOK, FIXED, REPLICAS, APART, FRAGMENTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def new_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))


def run(lines, **names):
    names |= {name: getattr(fedplug_torch, name) for name in fedplug_torch.__all__}
    exec(lines, names)
    return names


def test_the_hook_is_registered(one_rank):
    model = new_model()
    run(HOOK, model=model, ddp=DistributedDataParallel(model))


def test_a_tensor_is_averaged_in_a_fixed_size(one_rank):
    names = run(FIXED, x=torch.ones(8192))
    assert torch.equal(names["averaged"] + names["residual"], torch.ones(8192))


def test_the_replica_hook_fits_the_model(one_rank):
    lines, count = re.subn(r'"cuda", \(2, 4\)', '"cpu", (1, 1)', REPLICAS)
    assert count == 1
    run(lines, model=new_model(), init_device_mesh=init_device_mesh, fully_shard=fully_shard)


def test_workers_exchange_messages_without_torch_distributed():
    models = [new_model() for _ in range(2)]
    workers = {
        str(number): fedplug_torch.OuterStep(model, "topk(0.1)", inner_steps=1)
        for number, model in enumerate(models)
    }
    with torch.no_grad():
        models[0][0].weight += 1
    run(APART, workers=workers)
    assert torch.equal(models[0][0].weight, models[1][0].weight)


def test_the_fragments_fit_the_model():
    run(FRAGMENTS, model=new_model())
