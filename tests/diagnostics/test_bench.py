"""The figures of `fedplug bench` are those of the codec, and every timed run is checked."""

from __future__ import annotations

import functools
import itertools
import types

import numpy as np
import pytest

import fedplug
from fedplug.diagnostics import bench
from fedplug.diagnostics.bench import timed
from fedplug.diagnostics.updates import Update, random_update
from fedplug.errors import CapabilityError

UPDATE = random_update(2000)
X = UPDATE.arrays["update"]
MODEL = Update("a model", {"kernel": X.reshape(40, 50), "bias": X[:10], "head": X[:500].astype(np.float16)})
FLOAT32 = Update("a model", {"kernel": X.reshape(40, 50), "bias": X[:10], "head": X[:500]})


def relative_error(received, sent):
    return np.sum((received - sent.astype(float)) ** 2) / np.sum(sent.astype(float) ** 2)


@pytest.mark.parametrize("expression", ["topk(0.01)", "qsgd(4) | rans", "topk(0.1) | qsgd(8)"])
def test_the_figures_are_those_of_the_codec(expression):
    found = bench.measure(expression, UPDATE)
    payload, _ = fedplug.codec(expression).encode(X)
    assert found.encoder == expression
    assert found.bytes_per_element == len(payload) / 2000
    assert found.bits_per_element == 8 * found.bytes_per_element
    assert found.max_error == pytest.approx(np.abs(fedplug.decode(payload) - X).max(), rel=1e-5)
    assert min(found.encode_spread, found.decode_spread) >= 0
    assert found.nmse == pytest.approx(relative_error(fedplug.decode(payload), X), rel=1e-5)
    assert found.encode_gb_per_second == pytest.approx(8000 / found.encode_seconds / 1e9)
    assert found.decode_gb_per_second == pytest.approx(8000 / found.decode_seconds / 1e9)
    assert found.runs >= 7


def test_error_feedback_reduces_the_error_over_rounds():
    codec, state, received = fedplug.codec("topk(0.1)"), None, np.zeros(2000)
    sizes = []
    for round_num in range(20):
        payload, state = codec.encode(X, state, round_num)
        received += fedplug.decode(payload)
        sizes.append(len(payload))
    found = bench.measure("topk(0.1)", UPDATE, rounds=20)
    assert found.nmse == pytest.approx(relative_error(received / 20, X), rel=1e-3)
    assert found.nmse < 0.5 * bench.measure("topk(0.1)", UPDATE).nmse
    assert found.bytes_per_element == pytest.approx(np.mean(sizes) / 2000)


@pytest.mark.parametrize(
    ("expression", "update"),
    [
        ("topk(0.01, scope='model') | qsgd(8)", FLOAT32),
        ("budget('topk(0.1)', 500)", FLOAT32),
        ("topk(0.1)", MODEL),
        ("identity", MODEL),
    ],
)
def test_the_arrays_of_a_model_are_encoded_together(expression, update):
    payloads, _ = fedplug.codec(expression).encode_model(update.arrays)
    found = bench.measure(expression, update)
    assert found.bytes_per_element == sum(map(len, payloads.values())) / update.elements
    decoded = fedplug.decode_model(payloads)
    errors = [np.sum((decoded[name] - x.astype(float)) ** 2) for name, x in update.arrays.items()]
    whole = sum(np.sum(x.astype(float) ** 2) for x in update.arrays.values())
    assert found.nmse == pytest.approx(sum(errors) / whole, rel=1e-3)


def test_the_selection_can_be_measured():
    found = [bench.measure(expression, UPDATE) for expression in bench.ENCODERS]
    assert found[0].bytes_per_element == max(each.bytes_per_element for each in found)
    assert all(each.nmse < 1 for each in found if each.encoder != "randomk(0.01)")  # it is unbiased


class Forgetful(bench.Loop):
    """Gives other bytes, or other numbers, from some call on."""

    def __init__(self, expression, arrays, *, encodings=10**6, decodings=10**6):
        super().__init__(expression, arrays)
        self._left = {"encode": encodings, "decode": decodings}

    def _use(self, what):
        self._left[what] -= 1
        return self._left[what] >= 0

    def encode(self, state, round_num):
        payloads, state = super().encode(state, round_num)
        return (payloads if self._use("encode") else {"update": b""}), state

    def decode(self, payloads):
        decoded = super().decode(payloads)
        return decoded if self._use("decode") else {name: x + 1 for name, x in decoded.items()}


@pytest.mark.parametrize(
    ("when", "message"), [({"encodings": 5}, "gave other bytes"), ({"decodings": 5}, "gave other numbers")]
)
def test_a_timed_run_with_another_result_is_an_error(monkeypatch, when, message):
    monkeypatch.setattr(bench, "Loop", functools.partial(Forgetful, **when))
    with pytest.raises(CapabilityError, match=message):
        bench.measure("topk(0.1)", UPDATE)


def test_every_run_has_its_own_argument_and_is_checked():
    seen, numbers = [], itertools.count()
    seconds, spread, runs = timed(lambda number: -number, lambda: next(numbers), seen.append)
    assert seconds > 0
    assert spread >= 0
    assert seen == [-number for number in range(runs + 1)]


def test_a_slow_call_is_timed_few_times_and_an_outlier_does_not_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bench, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    pauses = iter([0.3, 0.2, *[0.05] * 20])

    def call(pause):
        now[0] += pause

    seconds, spread, runs = timed(call, lambda: next(pauses), lambda _: None)
    assert seconds == pytest.approx(0.05)
    assert spread == pytest.approx(0)
    assert runs == 7
