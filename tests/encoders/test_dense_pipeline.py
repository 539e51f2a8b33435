"""Tests dense pipelines, and entropy coders in any pipeline: the same values in fewer bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fedplug
from fedplug.encoders import Pipeline
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.encoders.quantizers.value_form import BFloat16, Sign
from fedplug.errors import PayloadError
from fedplug.ops.types import ArraySpec

QUANTIZERS = ["qsgd(8)", "qsgd(3, block_size=16)", "qsgd(rounding='nearest')", "sign"]
FLOAT32 = np.dtype("float32")
SPEC = ArraySpec((1000,), FLOAT32)


def normal(spec=SPEC):
    return np.random.default_rng(0).standard_normal(spec.shape).astype(spec.dtype)


def body(encoder, x, spec):
    return encoder.to_wire(encoder.encode(x, encoder.init_state(spec), 3)[0], spec)


ALONE = [QSGD(4), QSGD(rounding="nearest"), Sign(error_feedback=False), BFloat16()]


@pytest.mark.parametrize("quantizer", ALONE, ids=repr)
def test_a_quantizer_alone_writes_its_bytes_under_its_wire_id(quantizer):
    encoder, x = Pipeline([quantizer]), normal()
    payload, state = encoder.encode(x, encoder.init_state(SPEC), 3)
    code = quantizer.encode(x, 3)
    assert encoder.wire_id == quantizer.wire_id
    assert encoder.capabilities == quantizer.capabilities
    assert state == {}
    np.testing.assert_array_equal(encoder.to_wire(payload, SPEC), code)
    np.testing.assert_array_equal(encoder.decode(payload, SPEC), quantizer.decode(code, 1000, FLOAT32))
    lossless = quantizer.capabilities.lossless
    assert set(payload) == ({"values"} if lossless else {"value_code"})


@pytest.mark.parametrize("text", [*QUANTIZERS, "topk(0.5) | qsgd(4)"])
def test_an_entropy_coder_shortens_a_payload_and_changes_no_value(text):
    coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
    short, long = body(coded, normal(), SPEC), body(alone, normal(), SPEC)
    got = coded.decode(coded.from_wire(short, SPEC), SPEC)
    np.testing.assert_array_equal(got, alone.decode(alone.from_wire(long, SPEC), SPEC))
    assert len(short) <= len(long) + 1


def test_normal_values_of_four_bits_take_three_and_a_quarter():
    spec = ArraySpec((100_000,), FLOAT32)
    levels = 8 * len(body(fedplug.encoder("qsgd(4) | rans"), normal(spec), spec)) / 100_000 - 32 / 512
    assert 3.1 < levels < 3.4


def test_a_sparse_update_of_few_levels_takes_less_than_a_bit_an_element():
    spec = ArraySpec((100_000,), FLOAT32)
    x = np.where(np.arange(100_000) % 50 == 0, normal(spec), np.float32(0))
    assert len(body(fedplug.encoder("qsgd(2, block_size=1048576) | rans"), x, spec)) < 0.3 * 100_000 / 5


def test_it_has_the_promises_of_its_quantizer():
    for text in QUANTIZERS:
        coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
        assert coded.capabilities == dataclasses.replace(alone.capabilities, fixed_size=False)
        assert set(coded.init_state(SPEC)) == set(alone.init_state(SPEC))


def test_a_body_too_short_for_its_scales_is_refused():
    with pytest.raises(PayloadError, match="too short"):
        fedplug.encoder("qsgd(4) | rans").from_wire(np.zeros(5, np.uint8), SPEC)
