"""Checks of a reply besides its arrays: the weight, and the form of the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

__all__ = ["Terms", "the_model"]

_HEAVIEST = float(np.finfo(np.float32).max)


class Terms:
    """The requirements of one strategy on the replies of each round.

    Strategies other than FedAvg and wrappers around it read replies in their own way, and get them with any
    metrics.
    """

    def __init__(self, strategy: Strategy) -> None:
        """Reads the keys of metrics that affect the model."""
        inner: Any = strategy
        self._equal_weights = False
        while not isinstance(inner, FedAvg) and isinstance(getattr(inner, "strategy", None), Strategy):
            self._equal_weights |= getattr(inner, "accountant", None) is not None
            inner = inner.strategy
        self._key: str | None = inner.weighted_by_key if isinstance(inner, FedAvg) else None
        self._loss_key: str | None = getattr(inner, "train_loss_key", None)
        self._form = ""

    def begin_round(self, messages: Iterable[Message]) -> None:
        """Finds the form of most replies; ties favor that of the previous round."""
        forms = Counter(self._form_of(message.content) for message in messages)
        if forms:
            self._form = max(forms, key=lambda form: (forms[form], form == self._form, form))

    def weight(self, content: RecordDict) -> float:
        """Returns the weight of a client in the mean; 1 if the strategy has no weights.

        Raises:
            ValueError: The strategy cannot use these metrics.
        """
        if self._key is None:
            return 1.0
        weight = _number(content, self._key)
        if weight == 0:
            raise ValueError(f"its metric {self._key!r} is 0, so it does not count")
        if self._loss_key is not None:
            _number(content, self._loss_key)
        if (form := self._form_of(content)) != self._form:
            raise ValueError(f"its records are {form}; those of most nodes are {self._form}")
        return weight

    def _form_of(self, content: RecordDict) -> str:
        """Describes the records of a reply, its metrics, and the lengths of lists."""
        records = [repr(name) for name in content.array_records]
        records += [f"{name!r} ({_names(record)})" for name, record in content.metric_records.items()]
        if self._equal_weights:  # required by differential privacy with an accountant
            records += [f"weight {record.get(self._key or '')}" for record in content.metric_records.values()]
        return ", ".join(records)


def the_model(content: RecordDict) -> ArrayRecord:
    """Returns the arrays of a message with a model, from the server or from a client's training.

    Raises:
        ValueError: There is not exactly one `ArrayRecord`.
    """
    records = list(content.array_records.values())
    if len(records) != 1:
        raise ValueError(f"it has {len(records)} ArrayRecords; it should have one")
    return records[0]


def _number(content: RecordDict, key: str) -> float:
    values = [record[key] for record in content.metric_records.values() if key in record]
    if len(values) != 1 or isinstance(values[0], list):
        raise ValueError(f"its metrics have no single {key!r}")
    if not math.isfinite(values[0]) or not 0 <= values[0] <= _HEAVIEST:
        raise ValueError(f"its metric {key!r} is {values[0]}")
    return float(values[0])


def _names(record: MetricRecord) -> str:
    lengths = {key: f"[{len(value)}]" if isinstance(value, list) else "" for key, value in record.items()}
    return ", ".join(f"{key!r}{lengths[key]}" for key in sorted(lengths))
