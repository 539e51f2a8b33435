"""Scalars of NumPy, PyTorch and JAX are taken wherever a component wants a number."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug.encoders import ModelEncoder, Rule
from fedplug.errors import ConfigError
from fedplug.registry.component import plain

WHOLE = [np.int64, np.uint8, np.int32, np.array]
REAL = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.array]


@pytest.mark.parametrize("number", WHOLE)
def test_whole_numbers(number):
    rules = [{"encoder": "sign", "min_elements": number(3)}]
    for made, expected in [
        (fedplug.encoder("topk", count=number(5), chunk=number(8)), "topk(count=5, chunk=8)"),
        (fedplug.encoder("budget", encoder="qsgd(4)", bytes_per_client=number(90)), "budget('qsgd(4)', 90)"),
        (fedplug.encoder(rules), "rules([{'encoder': 'sign', 'min_elements': 3}])"),
    ]:
        assert made == fedplug.encoder(expected)
        assert repr(made) == repr(fedplug.encoder(expected))
        assert json.loads(json.dumps(fedplug.to_config(made))) == fedplug.to_config(made)
    schedule = fedplug.schedule("step", values=[0.5, 0.25], rounds=[number(3)])
    assert json.loads(json.dumps(schedule.get_config())) == {"values": [0.5, 0.25], "rounds": [3]}
    assert Rule("sign", min_elements=number(3), max_elements=number(9)) == Rule("sign", "*", 3, 9)
    specs = [fedplug.ops.types.ArraySpec((9,), "float32")]
    assert ModelEncoder("sign", specs, min_size=number(3)).get_config()["min_size"] == 3


@pytest.mark.parametrize("number", REAL)
def test_real_numbers(number):
    for name, argument in [("topk", "fraction"), ("auto", "participation"), ("bounded", "rel")]:
        made = fedplug.encoder(name, **{argument: number(0.25)})
        assert repr(made) == repr(fedplug.encoder(name, **{argument: 0.25}))
        assert json.loads(json.dumps(fedplug.to_config(made))) == fedplug.to_config(made)


def test_a_codec_and_its_state_do_not_tell_the_kinds_of_numbers_apart():
    x = np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)
    codec = fedplug.codec("topk", count=np.int64(5), min_size=np.int16(64))
    _, state = codec.encode_model({"a": x})
    payloads, _ = codec.encode_model({"a": x}, state, np.int64(1))
    same = fedplug.codec("topk(count=5)")
    for round_num in (1, np.uint8(1), np.array(1)):
        assert same.encode_model({"a": x}, state, round_num)[0] == payloads


@pytest.mark.parametrize(
    "number", [np.int64(0), np.float32(2.5), np.bool_(True), np.array([5]), np.str_("5")]
)
def test_an_invalid_number_is_refused(number):
    with pytest.raises(ConfigError, match=r"topk count is .*; it must be a whole number of at least 1"):
        fedplug.encoder("topk", count=number)


def test_other_values_do_not_change():
    for value in ("text", None, 3, 2.5, True, [1, "a"], (1, {"a": 2}), np.ones(3), np.ones((1, 1))):
        assert plain(value) is value or plain(value) == value
