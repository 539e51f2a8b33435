"""Draws what encoders cost against what they lose. Matplotlib is imported only when a picture is drawn."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Sequence
from pathlib import Path

from fedplug.diagnostics.bench import EncoderFigures
from fedplug.errors import ConfigError, MissingDependencyError

__all__ = ["draw", "require"]

_SUFFIXES = (".png", ".svg")
_MARKERS = "osD^vP*X"
_TITLE_WIDTH = 80


def require(path: Path) -> None:
    """Tells before anything is measured what would be missing at the end.

    Raises:
        ConfigError: A picture is no ``.png`` or ``.svg``, or its folder does not exist.
        MissingDependencyError: Matplotlib is not installed.
    """
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"a picture is a .png or a .svg file, not {path}")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent} for the picture {path.name}")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("the picture", "matplotlib")


def draw(figures: Sequence[EncoderFigures], path: Path, title: str) -> None:
    """Draws bytes per element against error, both logarithmic; what loses nothing lies at the lower edge.

    Args:
        figures: One point each.
        path: Of the picture, for which `require` was called.
        title: What was encoded.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    lossy = [each.nmse for each in figures if each.nmse > 0]
    edge = min(lossy, default=1.0) / 10
    for number, each in enumerate(figures):
        axes.plot(
            each.bytes_per_element,
            each.nmse or edge,
            linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)],
            color=f"C{number % 10}",
            fillstyle="full" if each.nmse else "none",
            label=each.encoder if each.nmse else f"{each.encoder} (loses nothing)",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("bytes per element")
    axes.set_ylabel("squared error, relative to the update")
    axes.set_title(textwrap.fill(title, _TITLE_WIDTH), fontsize="medium")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=120)
