"""Trains a character model on eight workers and compares the loss with the bytes that each worker sends.

``python examples/character_model.py`` takes minutes on two cores, and writes a table and a picture to
examples/results. The workers take turns in one process and call `encode` and `apply`. If each worker is a
process, `OuterStep.step` makes these calls, see the README. Runs with the same Python on the same machine
give the same numbers.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import fedplug_torch
import torch
from standard_library import Text, held_out_loss, loss_of, new_model, plot, read_text
from standard_library import batch as draw

from fedplug.diagnostics.environment import environment

WORKERS = 8
EVALUATE_EVERY = 24
"""Steps of a worker between two points of a curve; a multiple of ``inner_steps`` of every method."""

CHUNKED_VALUES = "topk(count=64, chunk=4096, decay=0.999)"
CHUNKED_TWO_BITS = "topk(count=64, chunk=4096, decay=0.95) | codebook(2) | rans"

Optimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class Method(NamedTuple):
    """A method of distributed training."""

    encoder: object
    inner_steps: int
    inner: Optimizer
    outer: Optimizer
    fragments: int = 1
    delay: int = 0
    alpha: float = 0.0


class Point(NamedTuple):
    """A point of a run.

    Attributes:
        steps: Steps of each worker.
        bytes_sent: Bytes that a worker has sent.
        largest: Bytes of its largest message.
        loss: The loss on held-out text.
    """

    steps: int
    bytes_sent: int
    largest: int
    loss: float


def adam_w(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of workers between exchanges in DiLoCo and SparseLoCo."""
    return torch.optim.AdamW(parameters, lr=2e-3)


def gradient(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Returns an inner optimizer that subtracts the gradient, so that workers send their gradients."""
    return torch.optim.SGD(parameters, lr=1)


def mean(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Returns an outer optimizer that applies the mean of the workers' changes."""
    return torch.optim.SGD(parameters, lr=1)


def nesterov(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Returns the outer optimizer of DiLoCo (Douillard et al. 2023)."""
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


def sign(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Returns sign descent, as in DeMo (Peng et al. 2024): Adam without moments."""
    return torch.optim.Adam(parameters, lr=2e-3, betas=(0.0, 0.0))


METHODS = {
    "mean of every step, dense": Method("identity", 1, adam_w, mean),
    "DeMo-like": Method(CHUNKED_VALUES, 1, gradient, sign),
    "DiLoCo, dense": Method("identity", 12, adam_w, nesterov),
    "DiLoCo, 8 bits": Method("qsgd(8)", 12, adam_w, nesterov),
    "Streaming DiLoCo, 8 bits": Method("qsgd(8)", 12, adam_w, nesterov, fragments=4, delay=1, alpha=0.5),
    "SparseLoCo-like": Method(CHUNKED_TWO_BITS, 12, adam_w, mean),
}


class Worker:
    """A shard, a copy of the model, and the two optimizers."""

    def __init__(self, number: int, shard: torch.Tensor, method: Method, seed: int) -> None:
        self._number, self._shard, self._steps, self._seed = number, shard, 0, seed
        self.model = new_model(seed)
        self._inner = method.inner(self.model.parameters())
        outer = method.outer(self.model.parameters())
        self.outer = fedplug_torch.OuterStep(
            self.model,
            method.encoder,
            inner_steps=method.inner_steps,
            optimizer=outer,
            fragments=method.fragments,
            fragment_sync_delay=method.delay,
            fragment_update_alpha=method.alpha,
        )

    def train(self, steps: int) -> None:
        """Trains this worker's copy."""
        for _ in range(steps):
            self._inner.zero_grad()
            loss_of(self.model, *draw(self._shard, (self._number, self._steps, self._seed))).backward()
            self._inner.step()
            self._steps += 1

    def encode(self) -> dict[str, bytes]:
        """Returns the payloads for all workers."""
        return self.outer.encode()


def run(
    method: Method, text: Text, steps: int, seed: int = 0, worker_class: type[Worker] = Worker
) -> list[Point]:
    """Trains all workers for ``steps`` steps each."""
    torch.set_num_threads(1)  # sums must not depend on the number of cores
    workers = [worker_class(number, shard, method, seed) for number, shard in enumerate(text.shards)]
    first, largest, interval = workers[0], 0, method.inner_steps // method.fragments
    points = [Point(0, 0, 0, held_out_loss(first.model, text))]
    for done in range(interval, steps + 1, interval):
        for worker in workers:
            worker.train(interval - method.delay)
        messages = {f"worker {number}": worker.encode() for number, worker in enumerate(workers)}
        largest = max(largest, *(sum(map(len, message.values())) for message in messages.values()))
        for worker in workers:
            worker.train(method.delay)
            worker.outer.apply(messages)
        if done % EVALUATE_EVERY == 0:
            points.append(Point(done, first.outer.bytes_sent, largest, held_out_loss(first.model, text)))
    return points


def table(curves: dict[str, list[Point]]) -> str:
    """Returns the Markdown table."""
    facts = environment()
    steps, dense, _, _ = curves["mean of every step, dense"][-1]
    elements = sum(p.numel() for p in new_model().parameters())
    lines = [
        "# A character model of eight workers",
        "",
        f"Made by `python examples/character_model.py`: {facts['processor']}, {facts['cores']} cores, "
        f"{facts['simd']}, PyTorch {torch.__version__}, Python {facts['python']}, whose standard library is "
        f"the text. {elements:,} parameters, {steps} steps a worker. Loss in nats a character, on modules "
        "that no worker trains on; bytes are those that a worker hands to each of the others.",
        "",
        "| method | encoder | exchange every | loss | bytes sent | fewer bytes | largest message |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, points in curves.items():
        method, last = METHODS[name], points[-1]
        every = "step" if method.inner_steps == 1 else f"{method.inner_steps} steps"
        if method.fragments > 1:
            every += f", {method.fragments} fragments in turn"
        encoder = str(method.encoder).replace("|", r"\|")
        lines.append(
            f"| {name} | `{encoder}` | {every} | {last.loss:.3f} | {last.bytes_sent:,} "
            f"| {dense / last.bytes_sent:,.0f}x | {last.largest:,} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Trains with every method, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=480, help="of every worker")
    parser.add_argument("--processes", type=int, default=2, help="methods that run at the same time")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    text = read_text(WORKERS)
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        jobs = [(method, text, arguments.steps) for method in METHODS.values()]
        curves = dict(zip(METHODS, pool.starmap(run, jobs, chunksize=1), strict=True))
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = table(curves)
    (arguments.out / "character_model.md").write_text(lines, encoding="utf-8")
    plot(
        {name: [(p.bytes_sent, p.loss) for p in points[1:]] for name, points in curves.items()},
        {name for name in curves if METHODS[name].encoder == "identity"},
        "bytes sent by a worker",
        arguments.out / "character_model.svg",
    )
    print(lines)


if __name__ == "__main__":
    main()
