"""The style of all pictures: one style file, one color for each run, labels beside lines and points.

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

import numpy as np

from fedplug.errors import MissingDependencyError
from fedplug.stores.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

__all__ = ["COLORS", "DENSE", "INK", "Look", "label_lines", "label_points", "looks", "require_matplotlib"]
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
Box = tuple[float, float, float, float]


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


def label_points(axes: Axes, points: Sequence[tuple[str, float, float, str]]) -> None:
    """Writes the names of points beside them, where they cover no other point or name if possible.

    Args:
        axes: The axes, with all points and their scales.
        points: Name, x, y and color of each point.
    """
    size = _size_of(axes)
    to_axes = _in_axes(axes)
    font = 0.9 * _font_size()
    places = [to_axes.transform((x, y)) * np.array(size) for _, x, y, _ in points]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    for (name, x, y, color), place in zip(points, places, strict=True):
        text = (0.56 * font * len(name), _LINE_HEIGHT * font)
        offsets = [(dx, dy * text[1]) for dy in (0, 0.7, -0.7, 1.4, -1.4, 2.1, -2.1) for dx in (7.0, -7.0)]
        free = [_covered(_box(place, text, offset), taken, size) for offset in offsets]
        offset = offsets[free.index(min(free))]
        taken.append(_box(place, text, offset))
        axes.annotate(
            name,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            color=color,
            fontsize=font,
            va="center",
            ha="left" if offset[0] > 0 else "right",
        )


def _box(place: Sequence[float], text: tuple[float, float], offset: tuple[float, float]) -> Box:
    """Returns the box of a text beside a point: left, low, right, high."""
    left = place[0] + offset[0] - (text[0] if offset[0] < 0 else 0)
    middle = place[1] + offset[1]
    return left, middle - text[1] / 2, left + text[0], middle + text[1] / 2


def _covered(box: Box, taken: Sequence[Box], size: tuple[float, float]) -> float:
    """Returns the area of a box that others cover or that is outside the axes."""
    axes = _shared(box, (0, 0, size[0], size[1]))
    return sum(_shared(box, other) for other in taken) + _shared(box, box) - axes


def _shared(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return float(max(0.0, width) * max(0.0, height))


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
