"""Plots the size of encoders against their error. Matplotlib is imported only to draw."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import fedplug.pictures as pictures
from fedplug.diagnostics.bench import EncoderFigures
from fedplug.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "require"]

_SUFFIXES = (".png", ".svg")
_TITLE_WIDTH = 80


def require(path: Path) -> None:
    """Checks before the measurement that the picture can be drawn.

    Raises:
        ConfigError: The picture is not a ``.png`` or ``.svg`` file, its folder does not exist, or there is
            something else than a file in its place.
        MissingDependencyError: Matplotlib is not installed.
    """
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"a picture must be a .png or .svg file, found {path}")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent} for the picture {path.name}")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no regular file; name a file for the picture")
    pictures.require_matplotlib("the picture")


def draw(figures: Sequence[EncoderFigures], path: Path, title: str) -> None:
    """Draws bytes per element against error on logarithmic axes. Lossless encoders are at the lower edge.

    Args:
        figures: The figures, one point each.
        path: The file of the picture, checked by `require`.
        title: The description of the update.
    """
    edge = min((each.nmse for each in figures if each.nmse > 0), default=1.0) / 10
    rows = [
        (
            each.encoder if each.nmse else f"{each.encoder} (lossless)",
            each.bytes_per_element,
            each.nmse or edge,
            pictures.DENSE if each.encoder == "identity" else pictures.COLORS[i % len(pictures.COLORS)],
        )
        for i, each in enumerate(figures)
    ]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for name, x, y, color in rows:
            filled = "none" if name.endswith("(lossless)") else "full"
            axes.plot(x, y, linestyle="none", marker="o", color=color, fillstyle=filled, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(0.15, 0.05)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("bytes per element")
        axes.set_ylabel("squared error, relative to the update")
        axes.set_title(textwrap.fill(title, _TITLE_WIDTH))
        pictures.label_points(axes, rows)

    pictures.save(path, 8, 5, paint)
