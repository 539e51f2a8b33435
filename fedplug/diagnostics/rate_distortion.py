"""Plots the size of encoders against their error. Matplotlib is imported only to draw."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Sequence
from pathlib import Path

from fedplug.diagnostics.bench import EncoderFigures
from fedplug.errors import ConfigError, MissingDependencyError
from fedplug.stores.files import whole_file

__all__ = ["draw", "require"]

_SUFFIXES = (".png", ".svg")
_MARKERS = "osD^vP*X"
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
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("the picture", "matplotlib")


def draw(figures: Sequence[EncoderFigures], path: Path, title: str) -> None:
    """Draws bytes per element against error on logarithmic axes; lossless encoders are at the lower edge.

    Args:
        figures: The figures, one point each.
        path: The file of the picture, checked by `require`.
        title: The description of the update.
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
            label=each.encoder if each.nmse else f"{each.encoder} (lossless)",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("bytes per element")
    axes.set_ylabel("squared error, relative to the update")
    axes.set_title(textwrap.fill(title, _TITLE_WIDTH), fontsize="medium")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=120)
