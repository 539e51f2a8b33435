"""Tests errors, randomness and sizes of quantizers. csrc/tests/value_code_test.cc tests their levels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedplug
from fedplug.encoders.quantizers import QSGD, BFloat16, BlockFloatingPoint, Codebook, Float16, Sign
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import ArraySpec

FLOAT32 = np.dtype("float32")
N = 8192

vectors = hnp.arrays(np.float32, st.integers(0, 70), elements=st.floats(-1e3, 1e3, width=32))


def normal(n=N, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def decoded(quantizer, x):
    return quantizer.decode(quantizer.encode(x, 3), len(x), FLOAT32)


@settings(deadline=None)
@given(vectors, st.integers(2, 8))
def test_values_decoded_by_bfp_are_encoded_exactly_with_the_same_bytes(x, bits):
    quantizer = BlockFloatingPoint(bits, block_size=8)
    code = quantizer.encode(x, 0)
    again = quantizer.encode(quantizer.decode(code, len(x), x.dtype), 1)
    np.testing.assert_array_equal(again, code)


def test_casts_saturate():
    largest = np.array([3e38, -3.4e38, 1e5], np.float32)
    np.testing.assert_array_equal(decoded(Float16(), largest), [65504, -65504, 65504])
    assert np.isfinite(decoded(BFloat16(), largest)).all()


RANDOM = [QSGD(8), QSGD(4), QSGD(2, block_size=16)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_codebook_of_extremes_is_finite_and_of_equal_values_is_exact(dtype):
    largest = float(ml_dtypes.finfo(dtype).max)
    for values in (
        [],
        [largest],
        [-largest] * 5,
        [largest, -largest],
        [largest] * 999 + [-largest],
        [0.0] * 3,
    ):
        x = np.array(values, dtype)
        quantizer = Codebook(2)
        got = quantizer.decode(quantizer.encode(x, 3), len(values), x.dtype)
        assert np.isfinite(got.astype(np.float64)).all()
        if len(set(values)) <= 1:
            np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("quantizer", RANDOM, ids=repr)
def test_random_rounding_depends_on_the_seed(quantizer):
    other = type(quantizer).from_config({**quantizer.get_config(), "seed": 1})
    assert (decoded(quantizer, normal()) != decoded(other, normal())).any()


def test_clients_round_independently_so_that_their_errors_average_out():
    x, clients = normal(512), 64
    updates = [x * (1 + 1e-6 * i) for i in range(clients)]
    errors = [decoded(QSGD(4), update) - update for update in updates]
    mean_energy = np.mean([np.sum(error**2) for error in errors])
    assert np.sum(np.mean(errors, axis=0) ** 2) < 2 * mean_energy / clients


@pytest.mark.parametrize(
    ("expression", "bytes_per_element", "nmse"),
    [
        ("qsgd(8)", 1 + 4 / 512, (0.5e-4, 2e-4)),
        ("qsgd(4)", 0.5 + 4 / 512, (0.02, 0.06)),
        ("qsgd(3, block_size=64)", 3 / 8 + 4 / 64, (0.1, 0.3)),
        ("qsgd(8, block_size=256, rounding='nearest')", 1 + 4 / 256, (2e-5, 1e-4)),
        ("bfp(8)", 1 + 2 / 512, (2e-5, 2e-4)),
        ("bfp(5)", 5 / 8 + 2 / 512, (2e-3, 1.2e-2)),
        ("codebook(8)", 1 + 4 * 256 / N, (1e-4, 4e-4)),
        ("codebook(2)", 2 / 8 + 4 * 4 / N, (0.15, 0.2)),
        ("sign", 1 / 8, (0.35, 0.375)),  # 1 - 2 / pi
        ("float16", 2, (1e-9, 1e-6)),
        ("bfloat16", 2, (1e-7, 1e-5)),
    ],
)
def test_size_on_the_wire_and_error_on_normal_data_are_as_documented(expression, bytes_per_element, nmse):
    encoder, x = fedplug.encoder(expression), normal()
    spec = ArraySpec(x.shape, x.dtype)
    payload, _ = encoder.encode(x, encoder.init_state(spec), 3)
    body = encoder.to_wire(payload, spec)
    assert len(body) == pytest.approx(bytes_per_element * N, abs=5)
    error = encoder.decode(encoder.from_wire(body, spec), spec) - x
    assert nmse[0] <= np.sum(error**2) / np.sum(x**2) <= nmse[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QSGD(1), "for one bit an element, use sign"),
        (lambda: QSGD(9), "qsgd bits is 9; it must be a whole number from 2 to 8"),
        (lambda: QSGD(True), "qsgd bits is True"),
        (lambda: QSGD(8, block_size=100), "qsgd block_size is 100; it must be a power of two"),
        (lambda: QSGD(rounding="up"), "qsgd rounding is 'up'; it must be 'random' or 'nearest'"),
        (lambda: BlockFloatingPoint(9), "bfp bits is 9; it must be a whole number from 2 to 8"),
        (lambda: BlockFloatingPoint(block_size=3), "bfp block_size is 3; it must be a power of two"),
        (lambda: Codebook(0), "codebook bits is 0; it must be a whole number from 1 to 8"),
        (lambda: Codebook(9), "codebook bits is 9"),
        (lambda: QSGD(seed=-1), "qsgd seed is -1"),
        (lambda: Sign(error_feedback=1), "sign error_feedback is 1"),
    ],
)
def test_a_wrong_argument_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_bytes_of_another_configuration_are_refused():
    code = QSGD(8).encode(normal(64), 3)
    with pytest.raises(PayloadError, match="was not made with bits=4 and block_size=512"):
        QSGD(4).decode(code, 64, FLOAT32)
