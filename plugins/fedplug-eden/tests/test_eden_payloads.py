"""Payloads of eden are read without a configuration, and without TensorFlow, whatever their bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fedplug_eden.encoder import Eden
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import PayloadError

GOLDEN = sorted(Path(__file__).parent.glob("golden/eden-1/*.json"))


@pytest.mark.parametrize("description", GOLDEN, ids=lambda path: path.stem)
def test_golden_payloads_are_read_without_a_configuration(description):
    decoded = fedplug.decode(description.with_suffix(".payload").read_bytes())
    assert decoded.tobytes() == bytes.fromhex(json.loads(description.read_text())["decoded"])


def test_there_are_golden_payloads():
    assert len(GOLDEN) >= 5


@pytest.mark.parametrize("expression", ["eden(3)", "eden(8) | rans", "topk(0.5) | eden(2) | rice"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_sent_is_about_what_was_given(expression, dtype):
    x = np.random.default_rng(0).standard_normal((30, 20)).astype(np.dtype(dtype))
    codec = fedplug.codec(expression)
    payload, _ = codec.encode(x, round_num=3)
    decoded = fedplug.decode(payload)
    assert (decoded.shape, decoded.dtype) == (x.shape, x.dtype)
    assert np.sum(np.square(decoded - x, dtype=np.float64)) < 0.6 * np.sum(np.square(x, dtype=np.float64))


def test_the_configuration_is_read_off_the_payload():
    code = Eden(5, seed=9).encode(np.ones(100, np.float32), 0)
    assert Eden.from_payload(code) == Eden(5)


@pytest.mark.parametrize("first", [[], [0], [9], [255]], ids=str)
def test_a_number_of_bits_that_does_not_exist_is_refused(first):
    with pytest.raises(PayloadError, match="bits; there are 1 to 8"):
        Eden.from_payload(np.array(first, np.uint8))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_are_refused_or_stand_for_finite_values(data):
    body = bytes(Eden(3).encode(np.arange(6, dtype=np.float32), 0))
    position, bytes_ = data.draw(st.integers(0, len(body))), data.draw(st.binary(max_size=9))
    changed = body[:position] + bytes_ + body[position + data.draw(st.integers(0, 9)) :]
    try:
        decoded = fedplug.decode(wire.pack(changed, "eden/1", "float32", [6]))
    except PayloadError:
        return
    assert decoded.shape == (6,)
    assert np.isfinite(decoded).all()
