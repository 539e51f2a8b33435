"""Numbers as people read them."""

from __future__ import annotations

import math

from fedplug.experiment.byte_units import byte_unit

__all__ = ["MISSING", "amount", "printable", "shortened", "size"]

MISSING = "\N{EN DASH}"
"""Stands where there is no number."""


def size(number: float | None) -> str:
    """A number of bytes in its unit, with three digits ("1.23 MB") or, below 1 kB, whole."""
    if number is None or not math.isfinite(number):
        return MISSING
    scale, unit = byte_unit(abs(number))
    return f"{amount(number / scale)} {unit}" if scale > 1 else f"{number:.0f} B"


def amount(number: float | None, digits: int = 3) -> str:
    """A number with so many digits at least; those before the point are never dropped."""
    if number is None or not math.isfinite(number):
        return MISSING
    if number == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(number)))
    if magnitude < -4:
        return f"{number:.{digits - 1}e}"
    return f"{number:,.{max(0, digits - 1 - magnitude)}f}"


def shortened(name: str, length: int) -> str:
    """The beginning of a name that is too long for a figure; the tables have all of it."""
    name = printable(name)
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def printable(text: str) -> str:
    """The text without what neither HTML nor XML can hold: control characters and lone surrogates."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
