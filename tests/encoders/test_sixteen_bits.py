"""Tests error feedback of float16 and bfloat16: residuals are float32 for every encoder."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug import ops

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
SIZE = 40
ENCODERS = [
    "topk(count=1)",
    "topk(count=1, chunk=20)",
    "topk(count=1, scope='model')",
    "topk(count=1) | qsgd(4, block_size=16) | rans",
    "topk(count=2) | float16",
    "topk(count=2) | sign | rice",
    "topk(count=2) | qsgd(2) | rans",
    "topk(count=2) | codebook(2)",
    "topk(count=3, chunk=16) | bfp(4) | gaps",
    "stc(0.05)",
    "randomk(0.05, error_feedback=True)",
    "sign",
    "bounded(0.25, error_feedback=True)",
]


def steady(dtype):
    """An update whose first entry is always the largest, while the others are small."""
    update = np.full(SIZE, 1e-3, dtype)
    update[0] = 1
    return update


def kept(state):
    return state["residual"]


@pytest.mark.parametrize(
    ("expression", "dtype", "rounds"),
    [("topk(count=1)", DTYPES[0], 2500), *((text, DTYPES[1], 300) for text in ENCODERS)],
    ids=str,
)
def test_sent_and_kept_entries_add_up_to_all_updates(expression, dtype, rounds):
    """A 16-bit residual of a small entry would stop growing after at most 2,048 or 256 rounds."""
    codec, state, spare = fedplug.codec(expression), None, None
    update, sent, largest = steady(dtype), np.zeros(SIZE), 1.0
    for round_num in range(rounds):
        payload, after = codec.encode(update, state, round_num, out=spare)
        state, spare = after, state
        received = fedplug.decode(payload)
        assert received.dtype == dtype
        sent += received.astype(np.float64)
        largest = max(largest, abs(kept(state)).max())
    assert kept(state).dtype == np.float32
    rounding = rounds * 2.0**-24 * largest  # two float32 sums a round, of that magnitude
    np.testing.assert_allclose(sent + kept(state), rounds * update.astype(np.float64), rtol=0, atol=rounding)


@pytest.mark.parametrize("expression", ["topk(count=1)", "randomk(1.0, error_feedback=True)"])
def test_a_selected_value_s_rounding_error_stays_in_the_residual(expression):
    codec = fedplug.codec(expression)
    x = np.array([1], ml_dtypes.bfloat16)
    _, state = codec.encode(x)
    state["residual"][...] = np.float32(2**-8 + 2**-20)
    payload, state = codec.encode(x, state, 1)
    assert fedplug.decode(payload) == np.asarray(1 + 2**-7, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(state["residual"], np.float32(2**-8 + 2**-20 - 2**-7))


@pytest.mark.parametrize(("at", "sent"), [(0.5, 1.0), (1.5, 1 + 2**-6)])
def test_values_are_rounded_to_nearest_even(at, sent):
    codec = fedplug.codec("topk(count=1)")
    x = np.array([1], ml_dtypes.bfloat16)
    _, state = codec.encode(x)
    state["residual"][...] = at * 2**-7
    assert fedplug.decode(codec.encode(x, state, 1)[0]) == np.asarray(sent, ml_dtypes.bfloat16)


@pytest.mark.parametrize("expression", ["topk(count=1)", "sign"])
def test_a_sum_too_large_for_float16_sends_the_largest_number_and_keeps_the_rest(expression):
    codec, state = fedplug.codec(expression), None
    x, sums = np.array([-60000], np.float16), 0.0
    for round_num in range(3):
        if state is not None:
            state["residual"][...] += -10000
            sums -= 10000
        payload, state = codec.encode(x, state, round_num)
        sums += -60000 - float(fedplug.decode(payload)[0])
        np.testing.assert_allclose(state["residual"], sums, rtol=2.0**-24)
    assert fedplug.decode(payload) == np.float16(-65504)


def test_tensors_of_16_and_of_32_bits_are_compared_exactly():
    codec = fedplug.codec("topk(count=1, scope='model')", min_size=0)
    arrays = {"a": np.array([256, 1], ml_dtypes.bfloat16), "b": np.array([256.5, 2], np.float32)}
    payloads, state = codec.encode_model(arrays)
    np.testing.assert_array_equal(fedplug.decode(payloads["a"]), arrays["a"] * 0)
    np.testing.assert_array_equal(fedplug.decode(payloads["b"]), np.float32([256.5, 0]))
    assert state["a/residual"].dtype == state["b/residual"].dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_widening_is_exact_and_narrowing_its_inverse(dtype):
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype)
    wide = ops.widened(numbers.reshape(4, -1)).reshape(-1)
    assert wide.dtype == np.float32
    with np.errstate(invalid="ignore"):  # signaling NaNs warn on some processors
        np.testing.assert_array_equal(wide, numbers.astype(np.float32))
    finite = numbers[np.isfinite(wide)]
    np.testing.assert_array_equal(ops.widened(finite[::3]), finite[::3].astype(np.float32))
    back = ops.narrowed(ops.widened(finite), dtype)
    np.testing.assert_array_equal(back.view(np.uint16), finite.view(np.uint16))
    assert ops.widened(np.array(1.5, dtype)).shape == ()


def test_metrics_of_a_16_bit_array_count_its_float32_residual():
    codec, metrics = fedplug.codec("topk(count=1)", min_size=0), fedplug.TensorMetrics()
    codec.encode_model({"kernel": np.array([3, 4], np.float16)}, metrics=metrics)
    found = metrics.value()["kernel"]
    assert found["nmse"] == pytest.approx(9 / 25)
    assert found["residual_ratio"] == pytest.approx(3 / 5)
