"""The displayed metric of a row, and decimal units for numbers of bytes.

The metric is the test accuracy, or the metric that was measured instead. This module does not import
TensorFlow, because the report and `fedplug watch` run without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["ACCURACY", "byte_unit", "in_words", "row_keys", "shown_of"]

ACCURACY = "test_accuracy"

_MEASURED = "test_"
"""The prefix of the keys of metrics on the test examples."""

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


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
