"""Tests the pipeline that `auto` selects for a model size, with and without state, in both executions."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.encoders import Auto
from fedplug.errors import ConfigError
from fedplug.ops.types import ArraySpec

LARGE = [
    ArraySpec((1000, 100), np.dtype("float32"), "kernel"),
    ArraySpec((200,), np.dtype("float32"), "bias"),
]
SMALL = [ArraySpec((40, 50), np.dtype("float32"), "kernel")]
TINY = [ArraySpec((10, 10), np.dtype("float32"), "kernel")]


def entries(encoder, specs):
    """The total number of entries that the encoder sends."""
    numbers = np.random.default_rng(0)
    model = {spec.name: numbers.normal(size=spec.shape).astype("float32") for spec in specs}
    payloads, _ = fedplug.codec(encoder).encode_model(model)
    return sum(np.count_nonzero(array) for array in fedplug.decode_model(payloads).values())


def test_one_encoder_is_shared_so_that_entries_go_where_they_count():
    first, second = Auto().assign(LARGE)
    assert first is second
    assert first == fedplug.encoder("stc(0.01, scope='model')")


def test_a_small_model_sends_500_entries_and_a_smaller_one_all():
    assert entries("auto", SMALL) == 500
    assert entries("auto", TINY) == 100


@pytest.mark.parametrize(
    ("participation", "sent"), [(0.2, 1002), (0.1, 2004), (0.001, 5010)], ids=["often", "rarely", "hardly"]
)
def test_clients_that_are_asked_less_often_send_more(participation, sent):
    assert entries(f"auto(participation={participation})", LARGE) == sent


def test_tensors_that_are_not_of_floats_do_not_count():
    counts = ArraySpec((1_000_000,), np.dtype("int64"), "counts")
    assert Auto().assign([*SMALL, counts])[0] == Auto().assign(SMALL)[0]


def test_it_keeps_a_residual_by_default():
    assert fedplug.encoder("auto").capabilities.needs_client_state
    without = fedplug.encoder("auto(error_feedback=False)")
    assert without.capabilities.unbiased
    assert not without.capabilities.needs_client_state
    assert without.assign(LARGE)[0] == fedplug.encoder("qsgd(4) | rans")


def test_models_are_sent_on_levels_that_few_entries_leave():
    assert Auto().for_models() == fedplug.encoder("bfp(4) | rans")


@pytest.mark.parametrize(
    "arguments", [{"error_feedback": 1}, {"participation": 0}, {"participation": 1.5}], ids=str
)
def test_arguments_out_of_range_are_refused(arguments):
    (name,) = arguments
    with pytest.raises(ConfigError, match=f"auto {name} is"):
        Auto(**arguments)
