"""Tests the lossless encoder of whole models: its size, its bits, and what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug import wire
from fedplug.errors import NonFiniteError, PayloadError

WEIGHTS = np.random.default_rng(0).normal(0, 0.02, 1_000_000)


def bits_of(x):
    payload = fedplug.codec("planes").encode(x)[0]
    assert fedplug.decode(payload).tobytes() == x.tobytes()
    return 8 * len(payload) / x.size


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 10.55), ("float16", 13.5), ("float32", 26.6)])
def test_weights_take_the_entropy_of_their_exponents_and_their_other_bits(dtype, most):
    assert bits_of(WEIGHTS.astype(np.dtype(dtype))) < most


def test_numbers_that_fit_a_narrower_dtype_take_no_more_than_there():
    assert bits_of(WEIGHTS.astype(ml_dtypes.bfloat16).astype(np.float32)) < 10.6


def test_zeros_and_denormal_numbers_keep_their_bits():
    bits_of(np.float32([0.0, -0.0, 1e-45, -1e-45, 3e38] * 20))


def test_random_bits_take_hardly_more_than_uncompressed():
    x = np.random.default_rng(0).integers(0, 2**16, 100_000).astype(np.uint16).view(np.float16)
    x[~np.isfinite(x)] = 0
    assert bits_of(x) < 16.01


def test_a_model_comes_back_bit_for_bit():
    model = {
        "kernel": WEIGHTS[:10_000].reshape(100, 100).astype(ml_dtypes.bfloat16),
        "bias": np.float32([1, 2]),
        "steps": np.int64([3] * 100),
        "bn.running_mean": np.arange(100, dtype=np.float32),
    }
    payloads, _ = fedplug.codec("planes").encode_model(model)
    decoded = fedplug.decode_model(payloads)
    assert {name: array.tobytes() for name, array in decoded.items()} == {
        name: array.tobytes() for name, array in model.items()
    }
    assert wire.unframe(payloads["kernel"]).wire_id == "planes/1"


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_on_both_sides(wrong):
    x = np.float32([wrong] * 100)
    with pytest.raises(NonFiniteError):
        fedplug.codec("planes").encode(x)
    code = wire.unframe(fedplug.diff(np.zeros(1, np.uint8), x)).body[13:]
    with pytest.raises(PayloadError, match="a NaN or an infinity"):
        fedplug.decode(wire.frame(code, "planes/1", "float32", (100,)))


def test_changes_from_another_array_are_refused():
    old = np.float32(WEIGHTS[:100])
    code = wire.unframe(fedplug.diff(old, old)).body[13:]
    with pytest.raises(PayloadError):
        fedplug.decode(wire.frame(code, "planes/1", "float32", (100,)))
