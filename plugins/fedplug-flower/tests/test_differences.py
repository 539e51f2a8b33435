"""Differences of models with counters and with constants that are not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fedplug_flower import differences
from fedplug_flower.round_sum import RoundSum
from flwr.app import Array, ArrayRecord

import fedplug
from fedplug.errors import NonFiniteError, PayloadError


def record(**arrays: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def mean_of(start: ArrayRecord, *trained: ArrayRecord) -> ArrayRecord:
    """Returns the model after a round in which every second client compresses."""
    total = RoundSum(start, fedplug.codec("identity"))
    for place, model in enumerate(trained):
        if place % 2:
            total.add_arrays(model, 1.0)
        else:
            update = differences.between(model, start)
            total.add_payloads(fedplug.codec("identity").encode_model(update)[0], 1.0)
    return total.moved()


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8", "bool", "float64"])
def test_whole_numbers_are_exact_in_every_round(dtype: str) -> None:
    """Flower's averages are float64 from the second round on. The differences always have one dtype."""
    largest = {"uint8": 255, "bool": 1, "int32": 2**31 - 1}.get(dtype, 2**53 - 3)
    start = record(tokens=np.zeros(3, dtype))
    first = record(tokens=np.asarray([largest, 1, 0], dtype))
    model = mean_of(start, first, first)
    assert model["tokens"].numpy().tolist() == [largest, 1, 0]
    second = record(tokens=np.asarray([largest, 0, 1], dtype))
    assert mean_of(model, second, second)["tokens"].numpy().tolist() == [largest, 0, 1]
    found = [differences.between(first, start), differences.between(second, model)]
    assert [update["tokens"].dtype for update in found] == [np.float64, np.float64]


@pytest.mark.parametrize(("before", "after"), [(0, np.nan), (0, np.inf), (np.inf, 0), (np.inf, -np.inf)])
def test_an_entry_that_becomes_or_was_not_finite_is_refused(before: float, after: float) -> None:
    start, trained = (record(w=np.full(100, value, np.float32)) for value in (before, after))
    with pytest.raises(NonFiniteError, match="'w'"):
        fedplug.codec("topk(0.1)").encode_model(differences.between(trained, start))


def test_payloads_of_another_encoder_than_was_asked_for_are_refused() -> None:
    model = record(kernel=np.zeros((20, 10), np.float32), steps=np.zeros(3, np.int64))
    update = {"kernel": np.ones((20, 10), np.float32), "steps": np.ones(3)}
    total = RoundSum(model, fedplug.codec("topk(0.1)"), ["steps"])
    with pytest.raises(PayloadError, match=r"tensor 'kernel': .* 'qsgd/1'; expected identity/1, sparse/1"):
        total.add_payloads(fedplug.codec("qsgd(4)").encode_model(update)[0], 1.0)
    for name in ("topk(0.1)", "identity"):
        total.add_payloads(fedplug.codec(name).encode_model(update)[0], 1.0)
    assert total.weight == 2.0


def test_values_have_the_float_dtype_that_a_strategy_gave_the_model() -> None:
    start, trained = record(ids=np.arange(5, dtype=np.float32)), record(ids=np.arange(1, 6))
    total = RoundSum(start, fedplug.codec("identity"), ["ids"])
    total.add_arrays(trained, 3.0)
    assert total.moved()["ids"].numpy().tolist() == [1, 2, 3, 4, 5]
