"""The picture of an experiment, ``accuracy.png``: test accuracy against the clients' uplink bytes.

Matplotlib is imported only to draw.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedplug.errors import MissingDependencyError
from fedplug.experiment.report import svg
from fedplug.experiment.report.targets import FINAL_ROUNDS, Rows, running_mean
from fedplug.stores.files import whole_file

__all__ = ["plot", "require_matplotlib"]


def require_matplotlib(needed_by: str = "the plot") -> None:
    """Checks before the training that Matplotlib is installed.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError(needed_by, "matplotlib")


def plot(runs: Mapping[str, Sequence[Rows]], path: Path, target: float = 0.0) -> None:
    """Draws test accuracy against the bytes that all clients have sent so far, on a logarithmic axis.

    Args:
        runs: The rows of each seed by run name, in the order of the configuration. A bold line shows the mean
            of rounds and seeds. Thin lines show single rounds or, with several seeds, each seed's mean. A run
            without rows has no line and keeps its color.
        path: The PNG file to write.
        target: An accuracy that gets a thin line; 0 for none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    several = any(len(repeats) > 1 for repeats in runs.values())
    for (color, style), (name, repeats) in zip(svg.lines(), runs.items(), strict=False):
        if not repeats:
            continue
        rounds = min(map(len, repeats))
        sent = _column(repeats, "uplink_bytes", rounds).cumsum(axis=1) / 1e6
        accuracy = _column(repeats, "test_accuracy", rounds)
        smooth = np.array([running_mean(values) for values in accuracy])
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
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=120)


def _column(repeats: Sequence[Rows], key: str, rounds: int) -> np.ndarray[Any, Any]:
    """Returns a number of every row, ``[seed, round]``."""
    return np.array([[row[key] for row in rows[:rounds]] for rows in repeats])
