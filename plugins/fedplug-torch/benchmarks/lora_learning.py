"""Compares encoders for LoRA adapters by the loss that 8 clients reach together.

    python plugins/fedplug-torch/benchmarks/lora_learning.py     # writes results/lora_learning.md beside it

A character model of 6 million parameters is trained on Python's standard library. Then 8 clients adapt it to
PyTorch, with adapters of rank 8 for every linear layer. Each client has the Python files of another folder of
PyTorch, so all machines with PyTorch have these texts. The model and the finished rows are kept in
``runs/lora_learning``, and the same command continues after an interruption. It takes three quarters of an
hour on two cores.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import functools
import itertools
import json
import multiprocessing
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

import fedplug
from fedplug.diagnostics.environment import environment

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from standard_library import CharacterModel, batch, loss_of, read, read_text

RESULTS = Path(__file__).parent / "results" / "lora_learning.md"
RUNS = Path("runs/lora_learning")
WIDTH, LAYERS, HEADS = 288, 6, 6
RANK, SCALE, RATE, MOMENTUM, BATCH, SEEDS = 8, 2.0, 0.5, 0.9, 2, 3
PACKAGE = Path(torch.__file__).parent
FOLDERS = ("nn", "distributed", "_inductor", "_dynamo", "fx", "ao", "utils", "onnx")
ENCODERS = {
    "none": ("identity", "lossless"),
    "auto": ("auto", "auto"),
    "3.3 %, signs": ("stc(0.033, scope='model')", "bfp(6) | rans"),
    "2.5 %, 4 bits": ("topk(0.025, scope='model') | qsgd(4) | rans", "bfp(6) | rans"),
}
"""The encoders of updates and of the adapters that clients receive."""


class Adapted(nn.Module):
    """A frozen linear layer, plus a trained product of two thin matrices (Hu et al., arXiv 2106.09685)."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.a = nn.Parameter(torch.randn(RANK, linear.in_features) / linear.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Adds the product to the layer's result."""
        result: torch.Tensor = self.linear(x) + SCALE * (x @ self.a.T) @ self.b.T
        return result


@functools.cache
def texts() -> tuple[list[torch.Tensor], torch.Tensor]:
    """Returns the text of each client, and the held-out text: every tenth file of each folder."""
    files = [sorted((PACKAGE / folder).rglob("*.py")) for folder in FOLDERS]
    trained = [[file for place, file in enumerate(each) if place % 10] for each in files]
    return list(map(read, trained)), read([file for each in files for file in each[::10]])


def steps(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    text: torch.Tensor,
    count: int,
    seed: tuple[int, ...],
    size: int,
) -> None:
    """Trains the optimizer's parameters with batches of a size."""
    for step in range(count):
        optimizer.zero_grad()
        loss_of(model, *batch(text, (*seed, step), size)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def held_out_loss(model: nn.Module, held_out: torch.Tensor) -> float:
    """Returns the mean loss on the same 256 windows."""
    with torch.no_grad():
        return statistics.fmean(float(loss_of(model, *batch(held_out, (0, n), 128))) for n in range(2))


def pretrained(count: int) -> CharacterModel:
    """Returns the model after steps on the standard library. They are taken once, and kept in ten parts."""
    torch.manual_seed(0)
    model = CharacterModel(WIDTH, LAYERS, HEADS)
    parts = [RUNS / f"{count}-{part}.pt" for part in range(10)]
    finished = sum(path.exists() for path in parts)
    if finished:
        model.load_state_dict(torch.load(parts[finished - 1], weights_only=True))
    if finished == len(parts):
        return model
    text = read_text(1)
    for part in range(finished, 10):  # the rate falls
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 * (1 - part / 10))
        steps(model, optimizer, text.shards[0], count // 10, (part,), 16)
        torch.save(model.state_dict(), parts[part])
        print(f"pre-training {part + 1}/10: {held_out_loss(model, text.held_out):.4f}", flush=True)
    return model


def adapt(model: CharacterModel, seed: int) -> dict[str, nn.Parameter]:
    """Freezes a model and gives each linear layer of its blocks an adapter. Returns their parameters."""
    torch.manual_seed(seed)
    model.requires_grad_(False)
    for block in model.blocks:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, Adapted(layer))
    return {name: each for name, each in model.named_parameters() if each.requires_grad}


def federated(name: str, seed: int, rounds: int, count: int) -> dict[str, object]:
    """Trains the adapters. Returns the losses, and the bytes of a client in all rounds.

    In a round, a client takes a plain step with a clipped gradient, and the server applies their mean with a
    momentum. The rate of the clients falls to 0, so that the last residuals are small.
    """
    model, (shards, held_out) = pretrained(count), texts()
    before = held_out_loss(model, held_out)
    parameters = adapt(model, seed)
    exact = {key: each.detach().clone() for key, each in parameters.items()}
    outer = torch.optim.SGD(exact.values(), lr=1.0, momentum=MOMENTUM, nesterov=True)
    inner = torch.optim.SGD(parameters.values(), lr=RATE)
    codec, server = fedplug.codec(ENCODERS[name][0]), fedplug.Broadcaster(ENCODERS[name][1])
    receiver, states = fedplug.Receiver(), [None] * len(shards)  # all clients receive the same messages
    up = down = 0
    for number in range(rounds):
        server.publish({key: each.numpy() for key, each in exact.items()})
        message = server.message(receiver.version)
        received = {key: torch.tensor(each) for key, each in receiver.apply(message).items()}
        total = fedplug.ModelSum.like(received)
        down += len(message)
        inner.param_groups[0]["lr"] = RATE * (1 - number / rounds)
        for client, shard in enumerate(shards):
            load(parameters, received)
            steps(model, inner, shard, 1, (seed, number, client), BATCH)
            update = {key: (each.detach() - received[key]).numpy() for key, each in parameters.items()}
            payloads, states[client] = codec.encode_model(update, states[client], number)
            up += sum(map(len, payloads.values()))
            total.add(payloads)
        for key, mean in total.mean().items():
            exact[key].grad = -torch.tensor(mean)
        outer.step()
    load(parameters, exact)
    after = held_out_loss(model, held_out)
    if name == "none":
        up, down = len(shards) * (dense := rounds * sum(each.nbytes for each in exact.values())), dense
    return {"before": before, "after": after, "up": up / len(shards), "down": down}


def row_of(name: str, seed: int, rounds: int, count: int) -> dict[str, float]:
    """Returns the results of `federated`, from their file if there is one."""
    path = RUNS / f"{count} {rounds} {name} {seed}.json"
    if not path.exists():
        path.write_text(json.dumps(federated(name, seed, rounds, count)), encoding="utf-8")
    row: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    print(seed, name, row, flush=True)
    return row


def load(parameters: dict[str, nn.Parameter], adapters: dict[str, torch.Tensor]) -> None:
    """Writes adapters into the model."""
    with torch.no_grad():
        for key, each in adapters.items():
            parameters[key].copy_(each)


def table(rows: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """Yields the lines of the table: means over the seeds."""
    yield "| up | down | loss | more loss | MB up | MB down | times fewer up | down | both ways |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    mean = {
        (n, key): statistics.fmean(run[key] for run in runs) for n, runs in rows.items() for key in runs[0]
    }
    for name, runs in rows.items():
        up, down, loss = mean[name, "up"], mean[name, "down"], mean[name, "after"]
        dense_up, dense_down = mean["none", "up"], mean["none", "down"]
        spread = f" ± {statistics.stdev(run['after'] for run in runs):.4f}" if len(runs) > 1 else ""
        cells = [f"`{each}`".replace("|", "\\|") for each in ENCODERS[name]]
        cells += [f"{loss:.4f}{spread}", f"{loss / mean['none', 'after'] - 1:+.2%}"]
        cells += [f"{up / 1e6:.3f}", f"{down / 1e6:.3f}", f"{dense_up / up:.0f}", f"{dense_down / down:.0f}"]
        yield "| " + " | ".join([*cells, f"{(dense_up + dense_down) / (up + down):.0f}"]) + " |"


def main() -> None:
    """Runs the missing rows and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--pretraining", type=int, default=2000, help="steps on the standard library")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    pretrained(given.pretraining)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(None, context, torch.set_num_threads, (1,)) as pool:
        found = {
            (name, seed): pool.submit(row_of, name, seed, given.rounds, given.pretraining)
            for seed, name in itertools.product(range(given.seeds), ENCODERS)
        }
        rows = {name: [found[name, seed].result() for seed in range(given.seeds)] for name in ENCODERS}
    here, model = environment(), CharacterModel(WIDTH, LAYERS, HEADS)
    size = sum(each.numel() for each in model.parameters())
    text = f"""# LoRA adapters: loss beside bytes

Made by `python plugins/fedplug-torch/benchmarks/lora_learning.py` on {datetime.date.today()}:
{here["processor"]}, torch {torch.__version__}.

A character model of {size:,} parameters, trained for {given.pretraining:,} steps on Python's standard
library, is adapted to the Python files of PyTorch by {len(FOLDERS)} clients with a folder each: rank {RANK},
{given.rounds} rounds of a step with {BATCH} windows, seeds: {given.seeds}. Clients take plain steps with
clipped gradients and a rate that falls to 0, and the server applies their mean with a momentum of {MOMENTUM}.
The loss is that of held-out files, in nats; before, it is {rows["none"][0]["before"]:.4f}. Bytes are those of
one client in all rounds.

"""
    given.output.write_text(text + "\n".join(table(rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
