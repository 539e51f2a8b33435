"""Draws the pictures of the first table of benchmarks/results/learning.md: bytes, accuracy and times.

``python docs/figures/learning.py`` writes ``learning.svg``, the first picture of the README, and
``time_to_accuracy.svg``, that of the gallery.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fedplug import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "benchmarks/results/learning.md"
IMAGES = ROOT / "docs/images"
DENSE = "no compression"
Rows = dict[str, dict[str, str]]


def rows() -> Rows:
    """Returns the cells of the table by the name of the run and the head of the column."""
    header, _, *lines = re.search(r"(?:^\|.*\n)+", TABLE.read_text(encoding="utf-8"), re.MULTILINE)[
        0
    ].splitlines()
    cells = [
        [cell.strip(" `*") for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in (header, *lines)
    ]
    return {row[0].replace("\\|", "|"): dict(zip(cells[0], row, strict=True)) for row in cells[1:]}


def looks(table: Rows) -> dict[str, pictures.Look]:
    """Returns the look of each run; the one that compresses both ways is first."""
    both = [name for name in table if "; broadcast auto" in name]
    return pictures.looks({name: name == DENSE for name in [*both, *table]})


def draw_savings(table: Rows, path: Path) -> None:
    """Draws the bytes of every run, both ways, with its accuracy beside the bar."""

    def paint(figure: Figure) -> None:
        axes, look = figure.subplots(), looks(table)
        order = sorted(table, key=lambda name: savings(table[name]))
        axes.barh(
            order, [100 / savings(table[name]) for name in order], color=[look[name].color for name in order]
        )
        for place, name in enumerate(order):
            row = table[name]
            text = f"{row['accuracy, %']} % accuracy, {savings(row):.0f} times fewer bytes"
            axes.text(100 / savings(row) + 1, place, text.replace(", 1 times fewer bytes", ""), va="center")
        axes.set(xlabel="bytes that a client sends and gets, %", xlim=(0, 160), title=title(table))
        axes.set_xticks(range(0, 101, 20))
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)

    pictures.save(path, 8, 2.8, paint)


def savings(row: dict[str, str]) -> float:
    """Returns how many times fewer bytes a run sends both ways."""
    return float(row["both ways"].rstrip("x"))


def title(table: Rows) -> str:
    """Returns the savings of the run with the fewest bytes, and its accuracy."""
    best = max(table.values(), key=savings)
    accuracy, dense = (row["accuracy, %"].split()[0] for row in (best, table[DENSE]))
    return f"{savings(best):.0f} times fewer bytes: accuracy {accuracy} instead of {dense} %"


def times(table: Rows) -> tuple[list[float], dict[str, list[float]]]:
    """Returns the speeds of the links in Mb/s, and for every run the seconds to the target at each."""
    columns = [head for head in table[DENSE] if head.startswith("s at ")]
    return (
        [float(head.split()[2]) for head in columns],
        {name: [float(row[head]) for head in columns] for name, row in table.items()},
    )


def draw_times(table: Rows, path: Path) -> None:
    """Draws the seconds of every run against the speed of the links."""
    speeds, runs = times(table)

    def paint(figure: Figure) -> None:
        axes, ends = figure.subplots(), []
        for name, look in looks(table).items():
            axes.plot(speeds, runs[name], color=look.color, linestyle=look.style, marker="o", markersize=4)
            ends.append((name, speeds[-1], runs[name][-1], look.color))
        axes.set(xlabel="speed of a client's link, Mb/s", ylabel="seconds to the target accuracy")
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        pictures.label_lines(axes, ends)

    pictures.save(path, 8, 3.6, paint)


if __name__ == "__main__":
    draw_savings(rows(), IMAGES / "learning.svg")
    draw_times(rows(), IMAGES / "time_to_accuracy.svg")
