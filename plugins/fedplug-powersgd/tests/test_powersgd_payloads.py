"""Payloads of powersgd are read without a configuration, and without TensorFlow, whatever their bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fedplug_powersgd.encoder import PowerSGD
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import PayloadError
from fedplug.ops import ArraySpec

GOLDEN = sorted(Path(__file__).parent.glob("golden/powersgd-1/*.json"))


@pytest.mark.parametrize("description", GOLDEN, ids=lambda path: path.stem)
def test_golden_payloads_are_read_without_a_configuration(description):
    decoded = fedplug.decode(description.with_suffix(".payload").read_bytes())
    assert decoded.tobytes() == bytes.fromhex(json.loads(description.read_text())["decoded"])


def test_there_are_golden_payloads():
    assert len(GOLDEN) >= 5


SPEC = ArraySpec((10, 8), "float32")


def body_of(encoder):
    x = np.random.default_rng(0).standard_normal(SPEC.shape).astype(np.float32)
    return encoder.to_wire(encoder.encode(x, encoder.init_state(SPEC), 0)[0], SPEC)


@pytest.mark.parametrize(
    "encoder", [PowerSGD(), PowerSGD(4, min_ratio=1, seed=11), PowerSGD(1, min_ratio=50)]
)
def test_a_payload_is_read_without_a_configuration(encoder):
    body = body_of(encoder)
    np.testing.assert_array_equal(
        fedplug.decode(wire.pack(bytes(body), "powersgd/1", "float32", SPEC.shape)),
        encoder.decode(encoder.from_wire(body, SPEC), SPEC),
    )


def test_what_is_sent_and_what_is_kept_are_what_was_given():
    x = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    codec, state, total = fedplug.codec("powersgd(2)"), None, np.zeros_like(x)
    for round_num in range(3):
        payload, state = codec.encode(x, state, round_num)
        total += fedplug.decode(payload)
    np.testing.assert_allclose(total + state["residual"], 3 * x, atol=1e-5)


@pytest.mark.parametrize(
    "encoder", [PowerSGD(2, min_ratio=1), PowerSGD(1, min_ratio=50)], ids=["rank", "whole"]
)
def test_another_rank_is_refused(encoder):
    body = body_of(PowerSGD(1, min_ratio=1))
    body = np.resize(body, body_of(encoder).size)
    with pytest.raises(PayloadError, match=r"a powersgd payload was not made by powersgd\("):
        encoder.from_wire(body, SPEC)


@pytest.mark.parametrize("rank", [5, 2**31, 2**32 - 1])
def test_ranks_that_no_encoder_sends_are_refused(rank):
    body = bytes(body_of(PowerSGD(4, min_ratio=1)))
    with pytest.raises(PayloadError, match=f"a powersgd payload has rank {rank}"):
        fedplug.decode(wire.pack(rank.to_bytes(4, "little") + body[4:], "powersgd/1", "float32", SPEC.shape))


def test_a_payload_of_two_bytes_is_too_short():
    with pytest.raises(PayloadError, match="too short to hold its rank"):
        PowerSGD.from_payload(np.zeros(2, np.uint8), SPEC)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_are_refused_or_stand_for_finite_values(data):
    body = bytes(body_of(PowerSGD(1)))
    position, bytes_ = data.draw(st.integers(0, len(body))), data.draw(st.binary(max_size=9))
    changed = body[:position] + bytes_ + body[position + data.draw(st.integers(0, 9)) :]
    try:
        decoded = fedplug.decode(wire.pack(changed, "powersgd/1", "float32", SPEC.shape))
    except PayloadError:
        return
    assert decoded.shape == SPEC.shape
    assert np.isfinite(decoded).all()
