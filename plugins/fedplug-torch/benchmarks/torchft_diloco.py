"""Compares torchft's LocalSGD and DiLoCo with `OuterStep` on the same model, data and steps.

    pip install torchft-nightly matplotlib
    python plugins/fedplug-torch/benchmarks/torchft_diloco.py     # writes results/torchft_diloco.md beside it

Two workers are processes on this machine, with torchft's lighthouse in the parent. Both train the character
model of the examples from the same parameters. torchft averages over gloo in float32. The bytes are those of
the tensors in its all-reduce, as a worker of two sends it.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from fedplug_torch import OuterStep

from fedplug.diagnostics.environment import environment

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from character_model import nesterov
from on_ranks import on_ranks
from standard_library import CharacterModel, batch, held_out_loss, loss_of, new_model, read_text

RESULTS = Path(__file__).parent / "results" / "torchft_diloco.md"
WORKERS, EVERY, RATE = 2, 12, 2e-3
METHODS = ("LocalSGD", "DiLoCo", "DiLoCo, 2 fragments, delay 1, alpha 0.5")
ENCODERS = ("identity", "qsgd(8)", "topk(0.05) | qsgd(8)")
STREAMING = {"fragment_sync_delay": 1, "fragment_update_alpha": 0.5}


class Result(NamedTuple):
    """The loss on held-out text, the bytes of a worker, and those of its largest exchange."""

    loss: float
    bytes_sent: int
    largest: int


def fragments_of(model: CharacterModel) -> list[torch.nn.Module]:
    """Returns two fragments: embeddings and first block, and the rest."""
    first = torch.nn.ModuleList([model.characters, model.places, model.blocks[0]])
    return [first, torch.nn.ModuleList([*model.blocks[1:], model.norm, model.head])]


def train(model: torch.nn.Module, inner: torch.optim.Optimizer, worker: int, steps: int) -> None:
    """Takes inner steps. Whatever exchanges is a hook of the inner optimizer."""
    shard = read_text(WORKERS).shards[worker]
    for step in range(steps):
        inner.zero_grad()
        loss_of(model, *batch(shard, (worker, step))).backward()
        inner.step()


def with_torchft(worker: int, steps: int, method: str, lighthouse: str) -> Result:
    """Trains with torchft's LocalSGD, DiLoCo, or DiLoCo of two fragments."""
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import DiLoCo, LocalSGD

    model = new_model()
    inner = torch.optim.AdamW(model.parameters(), lr=RATE)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=60)),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=WORKERS,
        use_async_quorum=False,
        replica_id=str(worker),
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=lighthouse,
        hostname="127.0.0.1",
    )
    sent: dict[int, int] = {}
    all_reduce = manager.allreduce

    def counted(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        step = manager.current_step()
        sent[step] = sent.get(step, 0) + tensor.nbytes
        return all_reduce(tensor, *args, **kwargs)

    manager.allreduce = counted
    if method == "LocalSGD":
        context = LocalSGD(manager, model, inner, sync_every=EVERY)
    elif method == "DiLoCo":
        context = DiLoCo(manager, [model], inner, nesterov(model.parameters()), sync_every=EVERY)
    else:
        parts = fragments_of(model)
        outer = [nesterov(part.parameters()) for part in parts]
        context = DiLoCo(manager, parts, inner, outer, sync_every=EVERY, **STREAMING)
    with context:
        train(model, inner, worker, steps)
    loss = held_out_loss(model, read_text(WORKERS))
    manager.shutdown(wait=False)
    return Result(loss, sum(sent.values()), max(sent.values()))


def with_outer_step(worker: int, steps: int, method: str, encoder: str) -> Result:
    """Trains with `OuterStep`, in the default process group."""
    model = new_model()
    inner = torch.optim.AdamW(model.parameters(), lr=RATE)
    is_local = method == "LocalSGD"
    optimizer = torch.optim.SGD(model.parameters(), lr=1) if is_local else nesterov(model.parameters())
    streaming = {"fragments": fragments_of(model), **STREAMING} if "fragments" in method else {}
    outer = OuterStep(model, encoder, inner_steps=EVERY, optimizer=optimizer, **streaming)
    sizes = [0]

    def exchange(*_: object) -> None:
        before = outer.bytes_sent
        outer.step()
        sizes.append(outer.bytes_sent - before)

    inner.register_step_post_hook(exchange)
    train(model, inner, worker, steps)
    return Result(held_out_loss(model, read_text(WORKERS)), outer.bytes_sent, max(sizes))


def compared(worker: int, steps: int, lighthouses: dict[str, str]) -> Iterator[tuple[str, str, Result]]:
    """Trains with every method. Worker 0 yields the results."""
    for method in METHODS:
        rows = [(f"torchft {method}", "", with_torchft(worker, steps, method, lighthouses[method]))]
        for encoder in ENCODERS:
            rows.append((f"`OuterStep`: {method}", encoder, with_outer_step(worker, steps, method, encoder)))
        if worker == 0:
            yield from rows


def main() -> None:
    """Trains with every method and writes the table."""
    from torchft.coordination import LighthouseServer

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=120, help="inner steps of a worker")
    steps = parser.parse_args().steps
    servers = {method: LighthouseServer(bind="[::]:0", min_replicas=WORKERS) for method in METHODS}
    lighthouses = {
        method: f"http://127.0.0.1:{server.address().rpartition(':')[2]}"
        for method, server in servers.items()
    }
    rows = on_ranks(WORKERS, compared, steps, lighthouses)
    for server in servers.values():
        server.shutdown()
    RESULTS.write_text(table(rows, steps), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def table(rows: list[tuple[str, str, Result]], steps: int) -> str:
    """Returns the page of results."""
    facts = environment()
    elements = sum(p.numel() for p in new_model().parameters())
    packages = ("torchft-nightly", "torch", "fedplug-torch")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    lines = [
        "# Outer steps beside torchft's",
        "",
        f"Made by `python benchmarks/torchft_diloco.py`: {facts['processor']}, {facts['cores']} cores, "
        f"Python {facts['python']}, {versions}. {WORKERS} workers, {elements:,} parameters, {steps} steps "
        f"each, an exchange of the model every {EVERY} steps; AdamW with learning rate {RATE}. One seed.",
        "",
        "| method | encoder | loss of worker 0 | bytes of a worker | largest exchange |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method, encoder, result in rows:
        written = f"`{encoder}`".replace("|", "\\|") if encoder else "float32"
        lines.append(
            f"| {method} | {written} | {result.loss:.4f} | {result.bytes_sent:,} | {result.largest:,} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
