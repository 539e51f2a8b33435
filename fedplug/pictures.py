"""The style of all pictures: one style file, one color for each run, labels beside lines.

Matplotlib is imported only to draw.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedplug.errors import MissingDependencyError
from fedplug.stores.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

__all__ = ["COLORS", "DENSE", "INK", "Look", "label_lines", "looks", "require_matplotlib"]
__all__ += ["save", "svg"]

STYLE = Path(__file__).with_name("pictures.mplstyle")

INK = "#24292f"
"""The color of text in Matplotlib. An SVG has the color of the reader's light or dark page instead."""

DENSE = "#808080"
"""The color of runs without compression, in every picture."""

COLORS = ("#2f81d8", "#e06a00", "#2b9c4e", "#b662cf", "#12959f", "#d9487a", "#a0752d", "#8a8a1c")
"""The colors of all other runs, with a contrast of at least 3 on white and on black."""

_LINE_HEIGHT = 1.25
_NAME_WIDTH = 24
_INK_ON_PAGES = (
    f"<style>svg {{color: {INK}}} @media (prefers-color-scheme: dark) {{svg {{color: #d7dce1}}}}</style>"
)


class Look(NamedTuple):
    """The color and the line style of a run."""

    color: str
    style: str = "-"


def looks(runs: Mapping[str, bool]) -> dict[str, Look]:
    """Returns the look of each run; after eight runs the colors repeat with another line style.

    Args:
        runs: Whether each run sends everything uncompressed, by name.
    """
    colored = itertools.cycle(Look(color, style) for style in ("-", "--", "-.", ":") for color in COLORS)
    dense = itertools.cycle(Look(DENSE, style) for style in ("-", "--", "-.", ":"))
    return {name: next(dense if uncompressed else colored) for name, uncompressed in runs.items()}


def require_matplotlib(needed_by: str) -> None:
    """Checks that Matplotlib is installed.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError(needed_by, "matplotlib")


def svg(width: float, height: float, paint: Callable[[Figure], None]) -> str:
    """Draws a picture as SVG text in the colors of the reader's page.

    Args:
        width: Width in inches; a page of 96 pixels per inch shows text 13 pixels high.
        height: Height in inches.
        paint: A function that draws into the figure.
    """
    written = io.StringIO()
    _draw(width, height, paint, written, "svg")
    head, tag, body = written.getvalue().partition("<svg ")
    attributes, _, content = body.partition(">")
    return f"{head}{tag}{attributes}>{_INK_ON_PAGES}{content.replace(INK, 'currentColor')}"


def save(path: Path, width: float, height: float, paint: Callable[[Figure], None]) -> None:
    """Replaces a picture atomically: an ``.svg`` file, or another kind that Matplotlib knows, on white.

    Raises:
        OSError: The file cannot be written.
    """
    with whole_file(path) as file:
        if path.suffix == ".svg":
            file.write(svg(width, height, paint).encode())
        else:
            kind = path.suffix[1:]
            _draw(width, height, paint, file, kind, facecolor="white", transparent=False, dpi=120)


def _draw(
    width: float, height: float, paint: Callable[[Figure], None], out: Any, kind: str, **options: Any
) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(fname=STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure)
        figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None, **options)


def label_lines(axes: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Writes the names of lines at the right of the axes, one below the other, each led to its line's end.

    Args:
        axes: The axes, with all lines and their scales.
        ends: Name, last x, last y and color of each line.
    """
    to_axes = _in_axes(axes)
    named = sorted(
        (float(to_axes.transform((x, y))[1]), textwrap.fill(name, _NAME_WIDTH), (x, y), color)
        for name, x, y, color in ends
    )
    line = _LINE_HEIGHT * _font_size() / _size_of(axes)[1]
    heights = [line * (1 + text.count("\n")) for _, text, _, _ in named]
    centers: list[float] = []
    top = -float("inf")
    for (wanted, *_), height in zip(named, heights, strict=True):
        centers.append(max(wanted, top + height / 2))
        top = centers[-1] + height / 2
    limit = 1 + line
    for i in reversed(range(len(centers))):
        centers[i] = min(centers[i], limit - heights[i] / 2)
        limit = centers[i] - heights[i] / 2
    for (_, text, end, color), center in zip(named, centers, strict=True):
        axes.annotate(
            text,
            end,
            xytext=(1.03, center),
            textcoords="axes fraction",
            color=color,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linestyle": ":",
                "linewidth": 0.8,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 2,
            },
        )


def _in_axes(axes: Axes) -> Transform:
    """Returns the transform from data to fractions of the axes, whose limits are final from now on."""
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    return axes.transScale + axes.transLimits


def _size_of(axes: Axes) -> tuple[float, float]:
    """Returns width and height in points, before the layout makes room for labels."""
    points = 72 / axes.figure.dpi
    return points * axes.bbox.width, points * axes.bbox.height


def _font_size() -> float:
    from matplotlib import rcParams

    return float(rcParams["font.size"])
