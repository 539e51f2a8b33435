"""Draws the picture of the gallery that shows the time to an accuracy by the speed of the links.

``python docs/figures/time_to_accuracy.py`` draws the first table of benchmarks/results/learning.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from style import COLORS, for_pages

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "benchmarks/results/learning.md"
PICTURE = ROOT / "docs/images/time_to_accuracy.svg"


def times(text: str) -> tuple[list[float], dict[str, list[float]]]:
    """Returns the speeds of the links in Mb/s, and for every run the seconds to the target at each."""
    header, _, *rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    speeds = [float(speed) for speed in re.findall(r"s at (\d+) Mb/s", header)]
    runs = {}
    for row in rows:
        name, *cells = [cell.strip(" `*") for cell in re.split(r"(?<!\\)\|", row.strip("|"))]
        runs[name.replace("\\|", "|")] = [float(cell) for cell in cells[-len(speeds) :]]
    return speeds, runs


def draw(speeds: list[float], runs: dict[str, list[float]], path: Path) -> None:
    """Draws a line for every run with a transparent background; equal tables give equal files."""
    from matplotlib import pyplot

    with for_pages():
        figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
        for (name, seconds), color in zip(runs.items(), COLORS, strict=True):
            axes.plot(speeds, seconds, color=color, marker="o", markersize=4, label=name)
        axes.set(xlabel="speed of a client's link, Mb/s", ylabel="seconds to the target accuracy")
        axes.set(xscale="log", yscale="log")
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(*times(TABLE.read_text(encoding="utf-8")), PICTURE)
