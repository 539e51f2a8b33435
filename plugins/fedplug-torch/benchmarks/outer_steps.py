"""Compares outer steps with Muon inside, 2 bits, or a selection by bfloat16 with DiLoCo and SparseLoCo.

    python plugins/fedplug-torch/benchmarks/outer_steps.py     # writes results/outer_steps.md beside it

The task is that of examples/character_model.py, with eight workers. Finished rows are kept in ``--runs``, and
the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from fedplug_torch import decode

from fedplug.diagnostics.environment import environment
from fedplug.encoders import Pipeline, Selection, Sparsifier
from fedplug.encoders.base import State
from fedplug.encoders.coders import Rans
from fedplug.encoders.quantizers import QSGD, Codebook
from fedplug.ops.types import Array, Scalar
from fedplug.registry.specs import Capabilities

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from character_model import CHUNKED_TWO_BITS, Method, Worker, adam_w, mean, nesterov, run
from standard_library import Text, new_model, read_text

RESULTS = Path(__file__).parent / "results" / "outer_steps.md"
WORKERS, INNER_STEPS, SHARE, DECAY = 8, 12, 1 / 64, 0.95
MUON_RATE, RATES = 1e-2, (2e-3, 1e-4, 1e-5, 1e-6)


class TwoBits(Codebook):
    """`codebook(2)` of all entries, with error feedback."""

    error_feedback = True


class NonZero(Sparsifier):
    """Sends the entries that are not zero."""

    name: ClassVar[str] = "nonzero"
    capabilities = Capabilities(executes_on=("numpy",))

    def get_config(self) -> dict[str, object]:
        """Returns no arguments."""
        return {}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        """Returns all entries that are not zero."""
        flat = np.asarray(x).reshape(-1)
        indices = np.flatnonzero(flat).astype(np.int32)
        return Selection(flat[indices], indices, state)


class Selecting(Worker):
    """Sends entries by their change relative to the parameter, and adds the others to the next changes.

    This is `PULSELoCo` (arXiv 2602.03839) if an entry is sent when its next cast to bfloat16 changes.
    """

    share: float | None = None
    """The share of each tensor that is sent. None: all entries whose cast changes."""

    kept: dict[str, torch.Tensor] | None = None

    def train(self, steps: int) -> None:
        """Trains this worker's copy, and records where it started."""
        if steps:
            self.anchors = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        super().train(steps)

    @torch.no_grad()
    def encode(self) -> dict[str, bytes]:
        """Replaces the parameters by those that the sent entries make, and encodes the change."""
        self.kept = self.kept or {name: torch.zeros_like(x) for name, x in self.anchors.items()}
        decay = DECAY if self.share else 1
        for name, p in self.model.named_parameters():
            x = self.anchors[name]
            change = x - p + decay * self.kept[name]
            if self.share is None:
                chosen = x.bfloat16() != (x - change).bfloat16()
            else:
                relative = change.abs() / (x.abs() + 1e-12)
                least = relative.flatten().topk(max(1, int(self.share * x.numel()))).values[-1]
                chosen = relative >= least
            self.kept[name] = change
            p.copy_(torch.where(chosen, x - change, x))
        payloads = super().encode()
        for name, payload in payloads.items():
            self.kept[name] -= decode(payload)
        return payloads


class SelectingShare(Selecting):
    """Sends a share."""

    share = SHARE


def muon(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Muon for the matrices of the blocks and AdamW for the others, as in MuLoCo (arXiv 2505.23725)."""
    first, second, *inner, weight, bias = parameters  # embeddings and head are for AdamW
    matrices = [p for p in inner if p.ndim == 2]
    others = adam_w([first, second, *(p for p in inner if p.ndim != 2), weight, bias])
    steps = torch.optim.Muon(matrices, lr=MUON_RATE, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    others.register_step_post_hook(lambda *_: (steps.step(), steps.zero_grad()))
    return others


class Row(NamedTuple):
    """The words for the encoder, the method, and the class of workers."""

    words: str
    method: Method
    worker: type[Worker] = Worker


TWO_BITS = Pipeline([TwoBits(2)])
HALF = "topk(count=2048, chunk=4096, decay=0.95) | codebook(2) | rans"
SELECTED = Pipeline([NonZero(), Codebook(2), Rans()])
CAST = Pipeline([NonZero(), QSGD(8)])
ROWS = {
    "DiLoCo": Row("none", Method("identity", INNER_STEPS, adam_w, nesterov)),
    "MuLoCo": Row("none", Method("identity", INNER_STEPS, muon, nesterov)),
    "DiLoCo, what changes bfloat16": Row("8 bits", Method(CAST, INNER_STEPS, adam_w, nesterov), Selecting),
    "DiLoCo, 8 bits": Row("8 bits", Method("qsgd(8)", INNER_STEPS, adam_w, nesterov)),
    "DiLoCo, 2 bits": Row("2 bits", Method(TWO_BITS, INNER_STEPS, adam_w, nesterov)),
    "MuLoCo, 2 bits": Row("2 bits", Method(TWO_BITS, INNER_STEPS, muon, nesterov)),
    "SparseLoCo, 1/2": Row("1/2 of each chunk, 2 bits", Method(HALF, INNER_STEPS, adam_w, mean)),
    "SparseLoCo, 1/2, Muon": Row("1/2 of each chunk, 2 bits", Method(HALF, INNER_STEPS, muon, mean)),
    "SparseLoCo": Row("1/64 of each chunk, 2 bits", Method(CHUNKED_TWO_BITS, INNER_STEPS, adam_w, mean)),
    "SparseLoCo, Muon": Row("1/64 of each chunk, 2 bits", Method(CHUNKED_TWO_BITS, INNER_STEPS, muon, mean)),
    "largest relative changes": Row(
        "1/64 of each tensor, 2 bits", Method(SELECTED, INNER_STEPS, adam_w, mean), SelectingShare
    ),
}


def measured(name: str, seed: int, steps: int, path: Path) -> dict[str, float]:
    """Returns the loss and the bytes of a training. Trains unless the file has them."""
    if not path.exists():
        row = ROWS[name]
        last = run(row.method, text(), steps, seed, row.worker)[-1]
        path.write_text(json.dumps({"loss": last.loss, "bytes": last.bytes_sent}), encoding="utf-8")
    record: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    print(seed, name, record, flush=True)
    return record


@functools.cache
def text() -> Text:
    """Reads the text once."""
    return read_text(WORKERS)


def cast_changes(rate: float) -> float:
    """Returns the share of entries whose bfloat16 changes in the inner steps of AdamW with a rate."""
    method = Method("identity", INNER_STEPS, functools.partial(torch.optim.AdamW, lr=rate), mean)
    worker = Worker(0, text().shards[0], method, 0)
    before = torch.nn.utils.parameters_to_vector(worker.model.parameters()).bfloat16()
    worker.train(INNER_STEPS)
    after = torch.nn.utils.parameters_to_vector(worker.model.parameters()).bfloat16()
    return (before != after).float().mean().item()


def table(rows: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """Yields the lines of the table: means over the seeds."""
    yield "| method | entries and values sent | loss | more than DiLoCo | kB sent | times fewer |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    mean_of = {
        (name, key): statistics.fmean(run[key] for run in runs)
        for name, runs in rows.items()
        for key in ("loss", "bytes")
    }
    for name, runs in rows.items():
        spread = statistics.stdev(run["loss"] for run in runs) if len(runs) > 1 else 0
        loss, sent = mean_of[name, "loss"], mean_of[name, "bytes"]
        cells = [name, ROWS[name].words, f"{loss:.3f} ± {spread:.3f}"]
        cells += [f"{loss - mean_of['DiLoCo', 'loss']:+.3f}", f"{sent / 1e3:,.0f}"]
        yield "| " + " | ".join([*cells, f"{mean_of['DiLoCo', 'bytes'] / sent:.1f}"]) + " |"


def page(rows: dict[str, list[dict[str, float]]], steps: int) -> str:
    """Returns the page of results."""
    here, size = environment(), sum(each.numel() for each in new_model().parameters())
    shares = ", ".join(f"{cast_changes(rate):.0%} at rate {rate:g}" for rate in RATES)
    return f"""# Outer steps: Muon, 2 bits, and what changes in bfloat16

Made by `python plugins/fedplug-torch/benchmarks/outer_steps.py` on {datetime.date.today()}:
{here["processor"]}, torch {torch.__version__}, seeds: {len(rows["DiLoCo"])}.

The character model of `examples/character_model.py` ({size:,} parameters), {WORKERS} workers, {steps} steps
of each and an exchange every {INNER_STEPS}. The loss is that of held-out modules, in nats. Bytes are those
that a worker hands to each of the others in all exchanges. Muon's rate is {MUON_RATE}, and AdamW's that of
the example. Neither was searched for.

{chr(10).join(table(rows))}

The share of entries whose cast to bfloat16 changes in the first {INNER_STEPS} steps of AdamW: {shares}.
"""


def main() -> None:
    """Runs the missing rows, and writes the page after each seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=120, help="of every worker, a multiple of 24")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/outer_steps"), help="the folder of rows")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ROWS}
    for seed in range(given.seeds):
        for name in ROWS:
            path = given.runs / f"{given.steps} {name.replace('/', ' of ')} {seed}.json"
            rows[name].append(measured(name, seed, given.steps, path))
        RESULTS.write_text(page(rows, given.steps), encoding="utf-8")


if __name__ == "__main__":
    main()
