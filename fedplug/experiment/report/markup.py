"""Builds HTML: all text is escaped here, and `Markup` is HTML already.

Names, paths and values of configurations come from files of any origin, so they are untrusted.
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
"""The texts that tables use for missing numbers."""


class Markup(str):
    """HTML from these functions; any other string is text."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | int | bool) -> Markup:
    """Returns an element around texts and markup.

    Args:
        tag: The name of the element.
        content: Texts, which are escaped, and `Markup`.
        attributes: Attributes, whose values are escaped. ``class_`` is "class", other underscores become
            hyphens. True is an attribute without a value; False omits it.
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
    """Joins texts and markup."""
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
    """Returns a table in a box that scrolls sideways on narrow screens.

    Args:
        caption: The caption.
        heads: The heads of the columns.
        rows: The cells; the first of a row is its head. Empty cells and "nan" are shown as missing.
        units: The units under the heads.
        marked: The positions of highlighted rows, from 0.
        left: The columns of text, aligned left; the others are numbers.
        body: The identifier of the table's body, for a script that fills it.
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
    """Returns a picture with its caption, below it or ``above`` it as a title, and its numbers."""
    wide = element("div", picture, class_="scroll", tabindex=0, role="region", aria_label=caption)
    behind = [details("The numbers", numbers)] if numbers else []
    words = element("figcaption", caption, class_="title" if above else False)
    return element("figure", *((words, wide) if above else (wide, words)), *behind)


def details(summary: str, *content: Markup) -> Markup:
    """Returns content that is shown on demand."""
    return element("details", element("summary", summary), *content)


def parts_legend(names: Iterable[str]) -> Markup:
    """Returns a legend of the three colors of a bar's parts."""
    return element(
        "ul",
        *[
            element("li", element("span", "", class_=f"patch part{number}"), name)
            for number, name in enumerate(names)
        ],
        class_="legend",
    )


def notice(text: str) -> Markup:
    """Returns a note about missing data and how to get them."""
    return element("p", text, class_="notice")


def tabs(name: str, legend: str, panels: Sequence[tuple[str, Markup]]) -> Markup:
    """Returns panels with tabs: radio buttons, which work with keys and without scripts."""
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
    """Returns JSON for the script; no text in it can end its element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{_escaped(name)}">{text}</script>')


def _escaped(text: str) -> str:
    return html.escape(printable(text))
