"""Tests when compression pays: the arithmetic of a report, and that no report is made without a request."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.encoders import BreakEven, ModelEncoder, break_even
from fedplug.encoders.model.trials import normal_numbers
from fedplug.errors import ConfigError
from fedplug.ops.types import ArraySpec
from fedplug.registry.specs import EXECUTIONS
from fedplug.testing import executions

SPECS = [ArraySpec((1000,), np.dtype("float32")), ArraySpec((7,), np.dtype("int32"))]


def report(speed):
    """A report in which encoding takes 0.9 s longer and saves 9 MB."""
    return BreakEven(speed, encode_seconds=1.0, sent_bytes=10**6, plain_seconds=0.1, plain_bytes=10**7)


def test_it_pays_below_the_speed_at_which_the_bytes_saved_take_as_long_as_encoding():
    assert report(1).pays_below == pytest.approx(80)
    assert [report(speed).pays for speed in (8, 79, 81, 1000)] == [True, True, False, False]
    assert report(8).seconds == pytest.approx(2)
    assert report(8).seconds_as_it_is == pytest.approx(10.1)


def test_a_report_lists_the_findings():
    assert str(report(1000)) == (
        "compression does not pay on a link of 1000 Mbit/s: encoding takes 1e+03 ms here and sending 1000000 "
        "bytes 8 ms; the 10000000 bytes of the uncompressed update take 180 ms; it pays below 80 Mbit/s"
    )


def test_an_encoder_is_measured_on_the_model_it_is_for():
    found = break_even(ModelEncoder(fedplug.encoder("topk(0.01)"), SPECS), 10)
    assert found.sent_bytes < 200 < 4000 < found.plain_bytes < 4200
    assert found.encode_seconds > 0


def test_encoders_are_always_tried_with_the_same_updates():
    xs, again = normal_numbers(SPECS), normal_numbers(SPECS)
    assert [(x.shape, x.dtype) for x in xs] == [(spec.shape, spec.dtype) for spec in SPECS]
    assert all(np.array_equal(x, y) for x, y in zip(xs, again, strict=True))
    assert abs(xs[0].mean()) < 0.1
    assert 0.9 < xs[0].std() < 1.1
    assert not xs[1].any()


def test_a_budget_is_measured_in_its_first_round():
    alone, kept = (
        break_even(ModelEncoder(fedplug.encoder(text), SPECS), 10)
        for text in ("topk(0.01)", "budget('topk(0.01)', 500)")
    )
    assert kept.sent_bytes == alone.sent_bytes


@pytest.mark.parametrize("speed", [0, -1, "fast", float("inf")])
def test_a_speed_that_is_none_is_refused(speed):
    with pytest.raises(ConfigError, match="megabits_per_second is"):
        break_even(ModelEncoder(fedplug.encoder("topk(0.1)"), SPECS), speed)


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("lowering", [None, "fused", "reference"])
def test_a_model_of_tensors_is_measured_with_the_bytes_of_arrays(lowering):
    encoder = fedplug.encoder({"kernel": "topk(0.01)", "*": "qsgd(8)"})
    specs = [
        [on.spec((1000,), "float32", "kernel"), on.spec((70,), "bfloat16", "bias")]
        for on in executions.installed(EXECUTIONS)
    ]
    on_arrays, on_tensors = (break_even(ModelEncoder(encoder, each), 10, lowering=lowering) for each in specs)
    assert on_tensors.sent_bytes == on_arrays.sent_bytes
    assert on_tensors.plain_bytes == on_arrays.plain_bytes > 4 * 1000 + 2 * 70
    for array, tensor in zip(*map(normal_numbers, specs), strict=True):
        assert tensor.numpy().tobytes() == array.tobytes()
