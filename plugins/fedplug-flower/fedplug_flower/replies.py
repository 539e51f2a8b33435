"""What must be known of a reply before it is used. Must not know what its arrays are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

__all__ = ["common_form", "require_form", "the_model", "weight"]

Form = tuple[tuple[str, tuple[tuple[str, int | None], ...]], ...]
"""Of a reply's metrics, by record: names, and the lengths of those that are lists."""


def weight(content: RecordDict, key: str) -> float:
    """The weight of a client in the mean: its metric ``key``.

    Raises:
        ValueError: There is none, or it is negative or infinite.
    """
    values = [record[key] for record in content.metric_records.values() if key in record]
    if len(values) != 1 or isinstance(values[0], list):
        raise ValueError(f"its metrics have no single {key!r} to weight it by")
    if not math.isfinite(values[0]) or values[0] < 0:
        raise ValueError(f"its metric {key!r} is {values[0]}")
    return float(values[0])


def common_form(messages: Iterable[Message]) -> Form:
    """The form of metrics that most replies have; of ties, the one that came first."""
    forms = Counter(_form(message.content) for message in messages)
    return forms.most_common(1)[0][0]


def require_form(content: RecordDict, form: Form) -> None:
    """Metrics of different forms cannot be averaged.

    Raises:
        ValueError: They are of another.
    """
    if _form(content) != form:
        raise ValueError(f"its metrics are {_form(content)}, those of most nodes are {form}")


def the_model(content: RecordDict) -> ArrayRecord:
    """The arrays of a message that carries a model: of the server, or of a client that sent what it trained.

    Raises:
        ValueError: There is not exactly one `ArrayRecord`.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise ValueError(f"it has {len(records)} ArrayRecords; it should have one")
    return records[0]


def _form(content: RecordDict) -> Form:
    return tuple((name, _lengths(record)) for name, record in content.metric_records.items())


def _lengths(record: MetricRecord) -> tuple[tuple[str, int | None], ...]:
    return tuple(
        sorted((key, len(value) if isinstance(value, list) else None) for key, value in record.items())
    )
