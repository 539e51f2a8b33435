"""Draws the numbers of examples by round or by traffic; needs Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Line = tuple[Sequence[float], Sequence[float]]


def by_round(values: Mapping[str, Sequence[float]]) -> dict[str, Line]:
    """Returns the lines of values that are given for rounds 1, 2 and so on."""
    return {name: (range(1, len(each) + 1), each) for name, each in values.items()}


def plot(path: Path, lines: Mapping[str, Line], **axes_settings: Any) -> None:
    """Draws named lines into one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name)
    axes.set(**axes_settings)
    axes.legend()
    figure.savefig(path, dpi=120)
