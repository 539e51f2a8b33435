"""Draws Matplotlib figures as small SVGs for a page: CSS colors, unique identifiers, reproducible bytes.

Colors of this module are written as CSS variables of the page, which have values for light and dark. Only
known elements and attributes of Matplotlib's output are kept.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from fedplug.experiment.report.markup import Markup, element
from fedplug.experiment.report.units import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GRID", "INK", "MUTED", "PARTS", "WIDTH", "Line", "draw", "lines", "swatch", "tidy"]

WIDTH = 760
"""Width of a figure in CSS pixels at its natural size; its text is 12 pixels high."""

INK, MUTED, GRID = "#010101", "#010102", "#010103"
PARTS = ("#020200", "#020201", "#020202")
_LIGHT = Path(__file__).with_name("page.css").read_text(encoding="utf-8").partition("@media")[0]
_SERIES = tuple(re.findall(r"--series\d: (#[0-9a-f]{6});", _LIGHT))
_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    **{color: f"part{number}" for number, color in enumerate(PARTS)},
    **{color: f"series{number}" for number, color in enumerate(_SERIES)},
}
"""CSS variables, by the colors that stand for them in Matplotlib."""

_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text, which can be searched, copied and read aloud
    "svg.hashsalt": "fedplug",
    "text.parse_math": False,  # names of tensors and runs are not formulas
    "font.size": 12,
    "axes.linewidth": 0.8,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": GRID,
    "lines.solid_capstyle": "round",
}
_KEPT = {
    "svg": ("viewBox",),
    "g": ("clip-path", "transform"),
    "defs": (),
    "clipPath": ("id",),
    "rect": ("x", "y", "width", "height"),
    "path": ("id", "d", "clip-path", "transform"),
    "use": ("x", "y", "href"),
    "text": ("x", "y", "transform"),
    "image": ("x", "y", "width", "height", "transform", "href"),
}
_STYLES = (
    *["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity"],
    *["stroke-linecap", "opacity", "text-anchor", "font-size"],
)


class Line(NamedTuple):
    """The look of a run's lines: a light color of ``page.css``, and a style in case the colors run out."""

    color: str
    style: str


def lines() -> Iterator[Line]:
    """Yields a line for each configured run, for the page and for ``accuracy.png``; repeats after 32."""
    return itertools.cycle(Line(color, style) for style in ("-", "--", "-.", ":") for color in _SERIES)


def swatch(line: Line) -> Markup:
    """Returns a line for a legend."""
    dashes = {"-": "none", "--": "7 3", "-.": "7 3 2 3", ":": "2 3"}[line.style]
    stroke = element(
        "path",
        d="M1 5H27",
        stroke=f"var(--{_VARIABLES[line.color]})",
        stroke_dasharray=dashes,
        stroke_width=3,
    )
    return element(
        "svg", stroke, viewBox="0 0 28 10", width=28, height=10, aria_hidden="true", class_="swatch"
    )


def draw(name: str, height: float, title: str, description: str, paint: Callable[[Axes], None]) -> Markup:
    """Draws a figure with one pair of axes.

    Args:
        name: The identifier of the figure, unique in the page.
        height: Height in CSS pixels.
        title: The title of the figure, for screen readers.
        description: The content of the figure, for screen readers.
        paint: A function that draws into the axes.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        drawn: Figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        FigureCanvasSVG(drawn)
        paint(drawn.subplots())
        written = io.StringIO()
        drawn.savefig(written, format="svg", metadata={"Date": None})
    return tidy(written.getvalue(), name, title, description)


def tidy(svg: str, name: str, title: str, description: str) -> Markup:
    """Reduces an SVG to a part of a page; see `draw`."""
    root = ElementTree.fromstring(svg)
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    names = {old: f"{name}-{number}" for number, old in enumerate(used)}
    (cleaned,) = _clean(root, names)
    labels = [
        ElementTree.Element("title", id=f"{name}-title"),
        ElementTree.Element("desc", id=f"{name}-desc"),
    ]
    labels[0].text, labels[1].text = printable(title), printable(description)
    cleaned[:0] = labels
    cleaned.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    return Markup(ElementTree.tostring(cleaned, encoding="unicode"))


def _clean(node: ElementTree.Element, names: dict[str, str]) -> list[ElementTree.Element]:
    """Returns the element without unknown parts, or only its children if it has no effect itself."""
    tag = node.tag.rpartition("}")[2]
    if tag not in _KEPT:
        return []
    found = {key.rpartition("}")[2]: value for key, value in node.attrib.items()}
    style = dict(re.findall(r"([\w-]+):\s*([^;]+)", found.pop("style", "")))
    attributes = {key: _value(key, found[key], names) for key in _KEPT[tag] if key in found}
    attributes |= {key: _variable(style[key]) for key in _STYLES if key in style}
    attributes = {key: value for key, value in attributes.items() if value}
    children = [child for each in node for child in _clean(each, names)]
    if (tag == "g" and not attributes) or (tag == "defs" and not children):
        return children
    if tag == "path" and attributes.get("fill") == "none" and "stroke" not in attributes:
        return []  # a transparent background
    if tag == "text":
        attributes.setdefault("fill", "var(--ink)")
    cleaned = ElementTree.Element(tag, attributes)
    cleaned.text = node.text if tag == "text" else None
    cleaned.extend(children)
    return [cleaned]


def _value(key: str, value: str, names: dict[str, str]) -> str:
    if key == "id":
        return names.get(value, "")
    if key == "clip-path":
        return f"url(#{names[value[5:-1]]})"
    if key == "href":
        return "#" + names[value[1:]] if value.startswith("#") else re.sub(r"\s+", "", value)
    if key == "transform":
        return "" if value.startswith("rotate(-0 ") else _rounded(value, 4)
    return _rounded(" ".join(value.split()), 1)


def _rounded(text: str, digits: int) -> str:
    return re.sub(r"-?\d+\.\d+", lambda match: f"{round(float(match.group()), digits):g}", text)


def _variable(value: str) -> str:
    variable = _VARIABLES.get(value)
    return f"var(--{variable})" if variable else value.removesuffix("px")
