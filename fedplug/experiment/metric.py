"""Which of a row's numbers is shown: the accuracy on the test examples, or what was measured in its place.

Must not know TensorFlow: the report and `fedplug watch` read rows where it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["ACCURACY", "in_words", "row_keys", "shown_of"]

ACCURACY = "test_accuracy"

_MEASURED = "test_"
"""How the keys of what was measured on the test examples begin."""


def row_keys(metrics: Sequence[str]) -> tuple[str, ...]:
    """Under which keys a row has a model's metrics, at least one.

    That is ``test_NAME``, and ``test_accuracy`` for the first if it is one of the many accuracies and no
    other has that name.
    """
    first, *others = (_MEASURED + name for name in metrics)
    return ACCURACY if "accuracy" in first and ACCURACY not in others else first, *others


def shown_of(keys: Iterable[str]) -> str | None:
    """The accuracy, or the first that was measured on the test examples; None if there is none."""
    measured = [key for key in keys if key.startswith(_MEASURED)]
    return ACCURACY if ACCURACY in measured else measured[0] if measured else None


def in_words(key: str) -> str:
    """The key as a reader's word: ``"mean absolute error"``."""
    return key.removeprefix(_MEASURED).replace("_", " ")
