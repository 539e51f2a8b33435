"""Measures the defaults of `auto`: entries for small models, and the share of entries for rare clients.

    python -m benchmarks.auto        # writes benchmarks/results/auto.md, in ten minutes

The trainings are those of benchmarks/feedback.py, with networks of other widths. Needs no TensorFlow.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterator

from benchmarks import feedback
from benchmarks.feedback import LAST, ROUNDS, SEEDS, TASKS, first_model
from benchmarks.tables import table
from fedplug.diagnostics.environment import environment

RESULTS = feedback.RESULTS.with_name("auto.md")
WIDTHS = (0, 32, 128)
OFTEN, RARE = 0.25, (0.1, 0.05)
COUNTS = (100, 250, 500, 1000)
SHARES = (0.01, 0.02, 0.05)

_MADE = """# Where the numbers of `auto` are from

Made by `python -m benchmarks.auto` on {date}: {processor}, {simd}.

Accuracy in percent of the models of the last {last} of {rounds} rounds, mean and standard deviation of
{seeds} seeds; in brackets, how many times fewer bytes an update takes. Digits: 40 clients, Dirichlet 0.3;
Synthetic(1, 1): 30 clients. Updates go through `stc(..., scope='model')`.

"""


def cell(task: str, width: int, encoder: str, part: float) -> str:
    """The accuracy and the compression of one encoder, over all seeds."""
    found = []
    for seed in SEEDS:
        data = TASKS[task](seed)._replace(hidden=width)
        found.append(feedback.train(data, encoder, part, seed))
    accuracies, sizes = zip(*found, strict=True)
    mean, spread = statistics.fmean(accuracies), statistics.stdev(accuracies)
    dense = sum(array.nbytes for array in first_model(data, 0).values())
    return f"{mean:.1f} ± {spread:.1f} ({dense / statistics.fmean(sizes):.0f}x)"


def small_models() -> Iterator[list[str]]:
    """Yields rows: the number of entries that a small model needs."""
    yield ["task", "parameters", "no compression", "1 %", *(f"{count} entries" for count in COUNTS)]
    for task in TASKS:
        for width in WIDTHS:
            shapes = first_model(TASKS[task](0)._replace(hidden=width), 0)
            elements = sum(array.size for array in shapes.values())
            counts = [f"stc(count={count}, scope='model')" for count in COUNTS if count < elements]
            ways = ["identity", "stc(0.01, scope='model')", *counts]
            cells = [cell(task, width, encoder, OFTEN) for encoder in ways]
            yield [task, f"{elements:,}", *cells, *[""] * (len(COUNTS) - len(counts))]


def rare_clients() -> Iterator[list[str]]:
    """Yields rows: the share of entries needed if few clients take part."""
    yield ["task", "clients a round", "no compression", *(f"{share:.0%}" for share in SHARES)]
    for task in TASKS:
        for part in RARE:
            ways = ["identity", *(f"stc({share}, scope='model')" for share in SHARES)]
            yield [task, f"{part:.0%}", *(cell(task, WIDTHS[-1], encoder, part) for encoder in ways)]


def main() -> None:
    here = environment()
    text = _MADE.format(
        date=datetime.date.today(),
        processor=here["processor"],
        simd=here["simd"],
        last=LAST,
        rounds=ROUNDS,
        seeds=len(SEEDS),
    )
    text += f"## Small models, {OFTEN:.0%} of the clients a round\n\n" + table(small_models())
    text += f"\n## Rare clients, a hidden layer of {WIDTHS[-1]}\n\n" + table(rare_clients())
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
