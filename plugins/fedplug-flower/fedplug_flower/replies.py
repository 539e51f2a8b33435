"""The form that the replies of a round must have: the arrays, the weight, and the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

from fedplug_flower.records import is_compressed

__all__ = ["Terms", "the_model"]

_HEAVIEST = float(np.finfo(np.float32).max)


class Terms:
    """The requirements of one strategy on the replies of each round.

    Flower's strategies need one `ArrayRecord` and a weight. A strategy of the user may read replies of any
    form, so that a form is required only if more than half of the replies have it.
    """

    def __init__(self, strategy: Strategy, *, averages: bool) -> None:
        """Reads the keys of metrics that affect the model.

        Args:
            strategy: The strategy.
            averages: Whether the user says that it averages as Flower's do.
        """
        inner = strategy
        self._equal_weights = False
        self._is_flowers = averages or _is_flowers(inner)
        while not isinstance(inner, FedAvg) and isinstance(getattr(inner, "strategy", None), Strategy):
            self._equal_weights |= getattr(inner, "accountant", None) is not None
            inner = inner.strategy
            self._is_flowers &= _is_flowers(inner)
        self._key: str | None = inner.weighted_by_key if isinstance(inner, FedAvg) else None
        self._loss_key: str | None = getattr(inner, "train_loss_key", None)
        self._weighs = True
        self._form: str | None = None  # of metrics; None means any

    def begin_round(self, answers: Sequence[RecordDict], model: ArrayRecord) -> ArrayRecord | None:
        """Finds the form of most replies. Ties favor the model, and the metrics of the previous round.

        Args:
            answers: The contents of all replies.
            model: The model that was sent.

        Returns:
            The arrays that each reply must have: the model, or a part of it that more than half of the
            replies have. None if only the strategy can check them.
        """
        if not answers:
            return model
        forms = Counter(map(self._form_of, answers))
        form = max(forms, key=lambda form: (forms[form], form == self._form, form))
        self._form = form if self._is_required(forms[form], len(answers)) else None
        self._weighs = self._is_required(sum(map(self._has_weight, answers)), len(answers))
        whole = _shapes(model)
        found = Counter(whole if is_compressed(content) else _shapes_of(content) for content in answers)
        if self._is_flowers:
            del found[None]  # no strategy of Flower reads such a reply
        most = max(found, key=lambda form: (found[form], form == whole, sorted(form or [])), default=whole)
        if 2 * found[most] <= len(answers):
            return model if self._is_flowers else None
        if most == whole:
            return model
        names = {name for name, _ in most or ()}
        is_part = most is not None and most < whole
        return ArrayRecord({name: model[name] for name in model if name in names}) if is_part else None

    def _is_required(self, having: int, answers: int) -> bool:
        """Returns whether every reply must have a form, which ``having`` of the round's replies have."""
        return self._is_flowers or 2 * having > answers

    def _has_weight(self, content: RecordDict) -> bool:
        try:
            return self._key is not None and _number(content, self._key) >= 0
        except ValueError:
            return False

    def weight(self, content: RecordDict) -> float:
        """Returns the weight of a client in the mean; 1 if the strategy needs no weights.

        Raises:
            ValueError: The strategy cannot use these metrics.
        """
        if self._key is None or not self._weighs:
            return 1.0
        weight = _number(content, self._key)
        if weight == 0:
            raise ValueError(f"its metric {self._key!r} is 0, so it does not count")
        if self._loss_key is not None:
            _number(content, self._loss_key)
        if self._form is not None and (form := self._form_of(content)) != self._form:
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


def _is_flowers(strategy: Strategy) -> bool:
    return type(strategy).aggregate_train.__module__.startswith("flwr.")


def _shapes(record: ArrayRecord) -> frozenset[tuple[str, str]]:
    return frozenset((name, str(list(array.shape))) for name, array in record.items())


def _shapes_of(content: RecordDict) -> frozenset[tuple[str, str]] | None:
    """Returns the names and shapes of the arrays of a reply. None unless it has one record with arrays."""
    records = list(content.array_records.values())
    return _shapes(records[0]) if len(records) == 1 and records[0] else None


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
