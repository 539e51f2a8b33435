"""Payloads of countsketch are read without a configuration, and without TensorFlow, whatever their bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from fedplug_sketch.encoder import CountSketch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import PayloadError
from fedplug.ops.types import ArraySpec

SPEC = ArraySpec((3, 5), "float32")


def body_of(encoder):
    return encoder.to_wire(encoder.encode(np.ones(SPEC.shape, np.float32), {}, 2)[0], SPEC)


@pytest.mark.parametrize(
    "encoder", [CountSketch(), CountSketch(0.7, rows=4, seed=11), CountSketch(5e-324, rows=15)]
)
def test_a_payload_says_which_encoder_wrote_it(encoder):
    body = body_of(encoder)
    assert CountSketch.from_payload(body, SPEC) == encoder
    np.testing.assert_array_equal(
        fedplug.decode(wire.frame(bytes(body), "countsketch/1", "float32", SPEC.shape)),
        encoder.decode(encoder.from_wire(body, SPEC), SPEC),
    )


def test_another_configuration_is_refused():
    with pytest.raises(PayloadError, match=r"was not made by countsketch\(fraction=0.5, rows=1, seed=1\)"):
        CountSketch(0.5, seed=1).from_wire(body_of(CountSketch(0.5)), SPEC)


@pytest.mark.parametrize(
    "at_and_value",
    [
        (0, "d", 0),
        (0, "d", 2),
        (0, "d", float("nan")),
        (8, "i", 0),
        (8, "i", 16),
        (8, "i", 256),
        (8, "i", 2**31 - 1),
        (12, "i", -1),
        (16, "i", -1),
        (20, "f", float("inf")),
    ],
    ids=str,
)
def test_headers_that_no_encoder_writes_are_refused(at_and_value):
    at, form, value = at_and_value
    body = bytearray(body_of(CountSketch(0.5)))
    struct.pack_into(f"<{form}", body, at, value)
    with pytest.raises(PayloadError, match="countsketch payload"):
        fedplug.decode(wire.frame(bytes(body), "countsketch/1", "float32", SPEC.shape))


def test_a_header_alone_is_too_short():
    with pytest.raises(PayloadError, match="too short to hold its configuration"):
        CountSketch.from_payload(np.zeros(15, np.uint8), SPEC)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_bytes_are_refused_or_stand_for_finite_values(data):
    body = bytes(body_of(CountSketch(0.5, rows=3)))
    position, bytes_ = data.draw(st.integers(0, len(body))), data.draw(st.binary(max_size=9))
    changed = body[:position] + bytes_ + body[position + data.draw(st.integers(0, 9)) :]
    try:
        decoded = fedplug.decode(wire.frame(changed, "countsketch/1", "float32", SPEC.shape))
    except PayloadError:
        return
    assert decoded.shape == SPEC.shape
    assert np.isfinite(decoded).all()
