"""Formats numbers for readers."""

from __future__ import annotations

import math

from fedplug.tff.experiment.display import byte_unit

__all__ = ["MISSING", "amount", "printable", "shortened", "size"]

MISSING = "\N{EN DASH}"
"""The placeholder of a missing number."""


def size(number: float | None) -> str:
    """Formats a number of bytes with a unit and three digits ("1.23 MB"). Whole below 1 kB."""
    if number is None or not math.isfinite(number):
        return MISSING
    scale, unit = byte_unit(abs(number))
    return f"{amount(number / scale)} {unit}" if scale > 1 else f"{number:.0f} B"


def amount(number: float | None, digits: int = 3) -> str:
    """Formats a number with at least ``digits`` digits. Those before the point are never dropped."""
    if number is None or not math.isfinite(number):
        return MISSING
    if number == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(number)))
    if magnitude < -4:
        return f"{number:.{digits - 1}e}"
    return f"{number:,.{max(0, digits - 1 - magnitude)}f}"


def shortened(name: str, length: int) -> str:
    """Shortens a name that is too long for a figure. The tables have it in full."""
    name = printable(name)
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Replaces characters that HTML or XML cannot represent: control characters and lone surrogates."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
