"""The tables of an experiment: what each run reached and sent, and what it needed for an accuracy.

As aligned text, which is printed; the cells alone are for those who set them otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedplug.experiment.report.targets import FINAL_ROUNDS, Reached, Rows

__all__ = ["Cells", "Summary", "summarize", "summary_cells", "table", "target_cells", "target_table"]


class Cells(NamedTuple):
    """A table as text: ``heads`` over ``units``, and a tuple for each of the ``rows``."""

    heads: tuple[str, ...]
    units: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Summary(NamedTuple):
    """One line of the table.

    Attributes:
        name: Of the run.
        accuracy: Test accuracy, mean of the last rounds and of the seeds.
        deviation: Standard deviation between the seeds of the mean of the last rounds; NaN for one seed.
        uplink: Bytes sent per client and round, mean over the payloads of all rounds.
        ratio: Size of the uncompressed update, divided by ``uplink``.
        downlink: Bytes received per client and round, mean over the clients of all rounds.
        both_ways: Uncompressed bytes in both directions, divided by ``uplink + downlink``.
        seconds: Per round, median; NaN when no round was timed.
        nonfinite: Updates that were dropped.
    """

    name: str
    accuracy: float
    deviation: float
    uplink: float
    ratio: float
    downlink: float
    both_ways: float
    seconds: float
    nonfinite: int


def summarize(name: str, repeats: Sequence[Rows], dense_bytes: float) -> Summary:
    """Condenses the rows of a run.

    Args:
        name: Of the run.
        repeats: Its rows with each of the seeds.
        dense_bytes: The size of one update without any encoding; NaN if it is not known.
    """
    accuracies = [np.mean([row["test_accuracy"] for row in rows[-FINAL_ROUNDS:]]) for rows in repeats]
    rows = [row for each in repeats for row in each]
    payloads = sum(row["payloads"] for row in rows)
    uplink = sum(row["uplink_bytes"] for row in rows) / payloads if payloads else float("nan")
    downlink = sum(row["downlink_bytes"] for row in rows) / sum(row["clients"] for row in rows)
    timed = [row["seconds"] for row in rows if row["seconds"] is not None]
    return Summary(
        name=name,
        accuracy=float(np.mean(accuracies)),
        deviation=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else float("nan"),
        uplink=uplink,
        ratio=dense_bytes / uplink if uplink else math.inf,
        downlink=downlink,
        both_ways=2 * dense_bytes / (uplink + downlink) if uplink + downlink else math.inf,
        seconds=float(np.median(timed)) if timed else float("nan"),
        nonfinite=sum(row["nonfinite_updates"] for row in rows),
    )


def table(summaries: Sequence[Summary]) -> str:
    """The summaries as aligned text."""
    return _aligned(summary_cells(summaries))


def summary_cells(summaries: Sequence[Summary]) -> Cells:
    """The summaries, not aligned yet."""
    heads = ("run", "accuracy", "uplink bytes", "ratio to", "downlink bytes", "ratio", "seconds", "dropped")
    units = (
        "",
        f"last {FINAL_ROUNDS} rounds",
        "/client/round",
        "dense",
        "/client/round",
        "both ways",
        "/round",
        "updates",
    )
    rows = [
        (
            s.name,
            f"{s.accuracy:.4f}" + ("" if math.isnan(s.deviation) else f" ± {s.deviation:.4f}"),
            f"{s.uplink:,.0f}",
            f"{s.ratio:.1f}x",
            f"{s.downlink:,.0f}",
            f"{s.both_ways:.1f}x",
            f"{s.seconds:.3f}",
            f"{s.nonfinite}",
        )
        for s in summaries
    ]
    return Cells(heads, units, rows)


def target_table(target: float, runs: Sequence[Reached]) -> str:
    """What each run needed to reach the accuracy ``target``, as aligned text."""
    return _aligned(target_cells(target, runs))


def target_cells(target: float, runs: Sequence[Reached]) -> Cells:
    """What each run needed to reach the accuracy ``target``, not aligned yet."""
    heads = ("run", "rounds to", "uplink bytes", "downlink bytes")
    units = ("", f"accuracy {target:g}", "all clients", "all clients")

    def cells(run: Reached) -> tuple[str, ...]:
        if not run.rounds:
            return run.name, "not reached", "", ""
        some = f", {len(run.rounds)} of {run.seeds} seeds" if len(run.rounds) < run.seeds else ""
        return run.name, _of_seeds(run.rounds) + some, _of_seeds(run.uplink), _of_seeds(run.downlink)

    return Cells(heads, units, [cells(run) for run in runs])


def _of_seeds(values: Sequence[int]) -> str:
    deviation = f" ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):,.0f}{deviation}"


def _aligned(cells: Cells) -> str:
    """Columns under two lines of heads; the first flush left, the others, numbers, right."""
    heads, units, rows = cells
    widths = [max(len(row[i]) for row in [heads, units, *rows]) for i in range(len(heads))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        return "  ".join(
            [first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()

    return "\n".join([line(heads), line(units), rule, *map(line, rows)])
