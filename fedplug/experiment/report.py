"""What an experiment shows at its end: a table and a plot, from the rows of the metrics log.

Must not import TensorFlow; matplotlib only when the plot is drawn.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplug.errors import ConfigError

__all__ = ["FINAL_ROUNDS", "Summary", "plot", "require_matplotlib", "summarize", "table"]

FINAL_ROUNDS = 10
"""The accuracy in the table is the mean over this many last rounds: one round's is noisy."""

Rows = Sequence[Mapping[str, Any]]


class Summary(NamedTuple):
    """One line of the table.

    Attributes:
        name: Of the run.
        accuracy: Test accuracy, mean of the last rounds.
        uplink: Bytes sent per client and round, mean over the payloads of all rounds.
        ratio: Size of the update as it is, divided by ``uplink``.
        downlink: Bytes received per client and round, mean over the clients of all rounds.
        seconds: Per round, median; NaN when no round was timed.
        nonfinite: Updates that were dropped.
    """

    name: str
    accuracy: float
    uplink: float
    ratio: float
    downlink: float
    seconds: float
    nonfinite: int


def summarize(name: str, rows: Rows, dense_bytes: int) -> Summary:
    """Condenses the rows of a run; ``dense_bytes`` is the size of one update without any encoding."""
    payloads = sum(row["payloads"] for row in rows)
    uplink = sum(row["uplink_bytes"] for row in rows) / payloads if payloads else float("nan")
    timed = [row["seconds"] for row in rows if row["seconds"] is not None]
    return Summary(
        name=name,
        accuracy=float(np.mean([row["test_accuracy"] for row in rows[-FINAL_ROUNDS:]])),
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
            f"{s.accuracy:.4f}",
            f"{s.uplink:,.0f}",
            f"{s.ratio:.1f}x",
            f"{s.downlink:,.0f}",
            f"{s.seconds:.3f}",
            f"{s.nonfinite}",
        )
        for s in summaries
    ]
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
        ConfigError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("the plot needs matplotlib; install it with: pip install 'fedplug[experiments]'")


def plot(runs: Mapping[str, Rows], path: Path) -> None:
    """Draws test accuracy against the bytes all clients have sent so far, on a logarithmic axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (color, style), (name, rows) in zip(_lines(), runs.items(), strict=False):
        sent = np.cumsum([row["uplink_bytes"] for row in rows]) / 1e6
        accuracy = np.array([row["test_accuracy"] for row in rows])
        axes.plot(sent, accuracy, color=color, alpha=0.25, linewidth=1)
        axes.plot(sent, _running_mean(accuracy), color=color, linestyle=style, linewidth=2, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("uplink, all clients together (MB, logarithmic)")
    axes.set_ylabel(f"test accuracy (bold: mean of {FINAL_ROUNDS} rounds)")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def _lines() -> Iterator[tuple[str, str]]:
    """A color and a line style for every run, however many there are; the first repeats after 32."""
    colors = ("C0", "C2", "C3", "C1", "C4", "C5", "C6", "C7")
    return itertools.cycle((color, style) for style in ("-", "--", "-.", ":") for color in colors)


def _running_mean(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([values[max(0, i - FINAL_ROUNDS + 1) : i + 1].mean() for i in range(len(values))])
