"""The displayed metric of a row, and numbers as text.

The metric is the test accuracy, or the metric that was measured instead. This module does not import
TensorFlow, because the report runs without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = [
    "ACCURACY",
    "MISSING",
    "Json",
    "Row",
    "amount",
    "byte_unit",
    "in_words",
    "printable",
    "row_keys",
    "shortened",
    "shown_of",
    "size",
]

Json: TypeAlias = Any
"""A value of JSON."""

Row = Mapping[str, Json]
"""The metrics of a round of a run with one seed, by key."""

ACCURACY = "test_accuracy"

_MEASURED = "test_"
"""The prefix of the keys of metrics on the test examples."""

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

MISSING = "\N{EN DASH}"
"""The placeholder of a missing number."""


def row_keys(metrics: Sequence[str]) -> tuple[str, ...]:
    """Returns the keys of a model's metrics in a row. There is at least one.

    The keys are ``test_NAME``. The first is ``test_accuracy`` if it is a variant of accuracy and no other
    metric has that name.
    """
    first, *others = (_MEASURED + name for name in metrics)
    return ACCURACY if "accuracy" in first and ACCURACY not in others else first, *others


def shown_of(keys: Iterable[str]) -> str | None:
    """Returns the accuracy's key, or the first key of a test metric. None if there is none."""
    measured = [key for key in keys if key.startswith(_MEASURED)]
    return ACCURACY if ACCURACY in measured else measured[0] if measured else None


def in_words(key: str) -> str:
    """Returns the key as a reader's word, such as ``"mean absolute error"``."""
    return key.removeprefix(_MEASURED).replace("_", " ")


def byte_unit(largest: float) -> tuple[float, str]:
    """Returns the size and the name of the decimal unit for byte counts up to ``largest``."""
    return next((unit for unit in _UNITS if largest >= unit[0]), _UNITS[-1])


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
