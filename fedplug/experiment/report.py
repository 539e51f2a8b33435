"""What an experiment shows at its end: tables and a plot, from the rows of the metrics log.

Must not import TensorFlow; matplotlib only when the plot is drawn.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplug.errors import MissingDependencyError

__all__ = [
    "FINAL_ROUNDS",
    "Reached",
    "Summary",
    "plot",
    "reach",
    "require_matplotlib",
    "summarize",
    "table",
    "target_table",
]

FINAL_ROUNDS = 10
"""The accuracy in the tables is the mean over this many last rounds: one round's is noisy."""

Rows = Sequence[Mapping[str, Any]]


class Summary(NamedTuple):
    """One line of the table.

    Attributes:
        name: Of the run.
        accuracy: Test accuracy, mean of the last rounds and of the seeds.
        deviation: Standard deviation between the seeds of the mean of the last rounds; NaN for one seed.
        uplink: Bytes sent per client and round, mean over the payloads of all rounds.
        ratio: Size of the uncompressed update, divided by ``uplink``.
        downlink: Bytes received per client and round, mean over the clients of all rounds.
        seconds: Per round, median; NaN when no round was timed.
        nonfinite: Updates that were dropped.
    """

    name: str
    accuracy: float
    deviation: float
    uplink: float
    ratio: float
    downlink: float
    seconds: float
    nonfinite: int


def summarize(name: str, repeats: Sequence[Rows], dense_bytes: int) -> Summary:
    """Condenses the rows of a run.

    Args:
        name: Of the run.
        repeats: Its rows with each of the seeds.
        dense_bytes: The size of one update without any encoding.
    """
    accuracies = [np.mean([row["test_accuracy"] for row in rows[-FINAL_ROUNDS:]]) for rows in repeats]
    rows = [row for each in repeats for row in each]
    payloads = sum(row["payloads"] for row in rows)
    uplink = sum(row["uplink_bytes"] for row in rows) / payloads if payloads else float("nan")
    timed = [row["seconds"] for row in rows if row["seconds"] is not None]
    return Summary(
        name=name,
        accuracy=float(np.mean(accuracies)),
        deviation=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else float("nan"),
        uplink=uplink,
        ratio=dense_bytes / uplink,
        downlink=sum(row["downlink_bytes"] for row in rows) / sum(row["clients"] for row in rows),
        seconds=float(np.median(timed)) if timed else float("nan"),
        nonfinite=sum(row["nonfinite_updates"] for row in rows),
    )


def table(summaries: Sequence[Summary]) -> str:
    """The summaries as aligned text."""
    heads = ("run", "accuracy", "uplink bytes", "ratio to", "downlink bytes", "seconds", "dropped")
    units = (
        "",
        f"last {FINAL_ROUNDS} rounds",
        "/client/round",
        "dense",
        "/client/round",
        "/round",
        "updates",
    )
    cells = [
        (
            s.name,
            f"{s.accuracy:.4f}" + ("" if math.isnan(s.deviation) else f" ± {s.deviation:.4f}"),
            f"{s.uplink:,.0f}",
            f"{s.ratio:.1f}x",
            f"{s.downlink:,.0f}",
            f"{s.seconds:.3f}",
            f"{s.nonfinite}",
        )
        for s in summaries
    ]
    return _aligned(heads, units, cells)


class Reached(NamedTuple):
    """What a run needed to reach an accuracy; one number for each of the seeds that did.

    Attributes:
        name: Of the run.
        seeds: How many the run was made with.
        rounds: The first after which the mean accuracy of the last rounds was high enough.
        uplink: Bytes that all clients together had sent by then.
        downlink: Bytes that all clients together had received by then.
    """

    name: str
    seeds: int
    rounds: tuple[int, ...]
    uplink: tuple[int, ...]
    downlink: tuple[int, ...]


def reach(name: str, repeats: Sequence[Rows], target: float) -> Reached:
    """Finds the round in which a run reached the accuracy ``target``, for each of the seeds.

    The comparison of McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
    Data" (2017). They take the best round so far; here it is the mean of the last ones, since one lucky round
    can come long before its accuracy is held.

    Args:
        name: Of the run.
        repeats: Its rows with each of the seeds.
        target: Test accuracy, between 0 and 1.
    """
    until = []
    for rows in repeats:
        accuracy = _running_mean(np.array([row["test_accuracy"] for row in rows]))
        there = np.flatnonzero(accuracy > target - 1e-9)  # a mean of equal numbers can be a bit below them
        if len(there):
            until.append(rows[: there[0] + 1])
    return Reached(
        name=name,
        seeds=len(repeats),
        rounds=tuple(len(rows) for rows in until),
        uplink=tuple(sum(row["uplink_bytes"] for row in rows) for rows in until),
        downlink=tuple(sum(row["downlink_bytes"] for row in rows) for rows in until),
    )


def target_table(target: float, runs: Sequence[Reached]) -> str:
    """What each run needed to reach the accuracy ``target``, as aligned text."""
    heads = ("run", "rounds to", "uplink bytes", "downlink bytes")
    units = ("", f"accuracy {target:g}", "all clients", "all clients")

    def cells(run: Reached) -> tuple[str, ...]:
        if not run.rounds:
            return run.name, "not reached", "", ""
        some = f", {len(run.rounds)} of {run.seeds} seeds" if len(run.rounds) < run.seeds else ""
        return run.name, _of_seeds(run.rounds) + some, _of_seeds(run.uplink), _of_seeds(run.downlink)

    return _aligned(heads, units, [cells(run) for run in runs])


def _of_seeds(values: Sequence[int]) -> str:
    deviation = f" ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):,.0f}{deviation}"


def _aligned(heads: Sequence[str], units: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns under two lines of heads; the first flush left, the others, numbers, right."""
    widths = [max(len(row[i]) for row in [heads, units, *cells]) for i in range(len(heads))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        return "  ".join(
            [first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()

    return "\n".join([line(heads), line(units), rule, *map(line, cells)])


def require_matplotlib() -> None:
    """Tells before hours of training what would be missing at their end.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("the plot", "matplotlib")


def plot(runs: Mapping[str, Sequence[Rows]], path: Path, target: float = 0.0) -> None:
    """Draws test accuracy against the bytes all clients have sent so far, on a logarithmic axis.

    Args:
        runs: By name the rows with each of the seeds. A run has one bold line, the mean of rounds and seeds;
            thin ones are single rounds or, of several seeds, each seed's mean of rounds.
        path: Of the picture, a PNG.
        target: An accuracy that gets a thin line; 0 for none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    several = any(len(repeats) > 1 for repeats in runs.values())
    for (color, style), (name, repeats) in zip(_lines(), runs.items(), strict=False):
        rounds = min(map(len, repeats))
        sent = _column(repeats, "uplink_bytes", rounds).cumsum(axis=1) / 1e6
        accuracy = _column(repeats, "test_accuracy", rounds)
        smooth = np.array([_running_mean(values) for values in accuracy])
        axes.plot(sent.T, (smooth if several else accuracy).T, color=color, alpha=0.25, linewidth=1)
        x, y = sent.mean(axis=0), smooth.mean(axis=0)
        axes.plot(x, y, color=color, linestyle=style, linewidth=2, label=name)
    if target:
        axes.axhline(target, color="0.3", linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("uplink, all clients together (MB, logarithmic)")
    of_seeds = " and of the seeds" if several else ""
    axes.set_ylabel(f"test accuracy (bold: mean of {FINAL_ROUNDS} rounds{of_seeds})")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path, dpi=120)


def _lines() -> Iterator[tuple[str, str]]:
    """A color and a line style for every run, however many there are; the first repeats after 32."""
    colors = ("C0", "C2", "C3", "C1", "C4", "C5", "C6", "C7")
    return itertools.cycle((color, style) for style in ("-", "--", "-.", ":") for color in colors)


def _column(repeats: Sequence[Rows], key: str, rounds: int) -> np.ndarray[Any, Any]:
    """A number of every row: ``[seed, round]``."""
    return np.array([[row[key] for row in rows[:rounds]] for rows in repeats])


def _running_mean(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([values[max(0, i - FINAL_ROUNDS + 1) : i + 1].mean() for i in range(len(values))])
