"""Pieces of HTML: every text is escaped here, what is HTML already is `Markup`.

Names, paths and values of configurations come from files that somebody sent: they are untrusted.
"""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from fedplug.experiment.report.units import MISSING, printable

__all__ = [
    "Markup",
    "data_table",
    "details",
    "element",
    "figure",
    "join",
    "notice",
    "parts_legend",
    "script_data",
    "tabs",
]


_UNKNOWN = ("", "nan", "nanx", "nan ± nan")
"""How tables write that there is no number."""


class Markup(str):
    """HTML, made by these functions; any other string is text."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | int | bool) -> Markup:
    """An element around texts and markup.

    Args:
        tag: Its name.
        content: Texts, which are escaped, and `Markup`.
        attributes: Their values are escaped; ``class_`` is "class", other underscores are hyphens; True is an
            attribute without a value, False none.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    written = "".join(
        f" {key}" if value is True else f' {key}="{_escaped(str(value))}"'
        for key, value in named.items()
        if value is not False
    )
    void = tag in ("input", "col")
    return Markup(f"<{tag}{written}>" + ("" if void else f"{join(content)}</{tag}>"))


def join(parts: Iterable[str]) -> Markup:
    """Texts and markup, one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def data_table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    units: Sequence[str] = (),
    marked: Iterable[int] = (),
    left: Iterable[int] = (0,),
    body: str | bool = False,
) -> Markup:
    """A table in a box that scrolls sideways where the screen is narrow.

    Args:
        caption: What it shows.
        heads: Of the columns.
        rows: Its cells; the first of a row is its head. Empty cells and "nan" are shown as missing.
        units: Under the heads.
        marked: The rows that stand out, from 0.
        left: The columns of text, flush left; the others are numbers.
        body: The identifier of its body, for a script that fills it.
    """
    marks, texts = set(marked), set(left)

    def cell(tag: str, column: int, text: str, **attributes: str) -> Markup:
        return element(tag, text, class_="text" if column in texts else "number", **attributes)

    def line(number: int, row: Sequence[str]) -> Markup:
        cells = [text if text not in _UNKNOWN else MISSING for text in row]
        first = cell("th", 0, cells[0], scope="row")
        rest = [cell("td", column, text) for column, text in enumerate(cells[1:], start=1)]
        return element("tr", first, *rest, class_="marked" if number in marks else False)

    head = [
        element("tr", *[cell("th", column, text, scope="col") for column, text in enumerate(heads)]),
        *([element("tr", *[cell("td", i, u) for i, u in enumerate(units)], class_="units")] if units else []),
    ]
    table = element(
        "table",
        element("caption", caption, class_="hidden"),
        element("thead", *head),
        element("tbody", *itertools.starmap(line, enumerate(rows)), id=body),
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def figure(picture: Markup, caption: str, numbers: Markup | None = None, *, above: bool = False) -> Markup:
    """A picture with its caption below, or ``above`` as a title, and the numbers behind it."""
    wide = element("div", picture, class_="scroll", tabindex=0, role="region", aria_label=caption)
    behind = [details("The numbers", numbers)] if numbers else []
    words = element("figcaption", caption, class_="title" if above else False)
    return element("figure", *((words, wide) if above else (wide, words)), *behind)


def details(summary: str, *content: Markup) -> Markup:
    """What is shown on demand."""
    return element("details", element("summary", summary), *content)


def parts_legend(names: Iterable[str]) -> Markup:
    """What the colors of the three parts of a bar stand for."""
    return element(
        "ul",
        *[
            element("li", element("span", "", class_=f"patch part{number}"), name)
            for number, name in enumerate(names)
        ],
        class_="legend",
    )


def notice(text: str) -> Markup:
    """What is missing, and what brings it."""
    return element("p", text, class_="notice")


def tabs(name: str, legend: str, panels: Sequence[tuple[str, Markup]]) -> Markup:
    """Panels of which one is seen: radio buttons, so that keys and a browser without scripts work."""
    parts: list[Markup] = []
    for number, (label, _) in enumerate(panels):
        key = f"{name}-{number}"
        parts += [
            element("input", type="radio", name=name, id=key, checked=not number),
            element("label", label, for_=key),
        ]
    parts += [element("div", content, class_="panel") for _, content in panels]
    return element("fieldset", element("legend", legend, class_="hidden"), *parts, class_="tabs")


def script_data(name: str, value: Any) -> Markup:
    """JSON for the script: no text in it can end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{_escaped(name)}">{text}</script>')


def _escaped(text: str) -> str:
    return html.escape(printable(text))
