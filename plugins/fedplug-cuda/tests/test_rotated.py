"""Rotated codes of the device have the bits of the CPU's kernels."""

import dataclasses

import fedplug_cuda
import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda.rotated import encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import kernels
from fedplug.encoders.quantizers.normal_levels import POSITIVE_LEVELS
from fedplug.errors import ArgumentError, NonFiniteError
from fedplug.ops.device_array import on_host
from fedplug.ops.types import PackedValues

DTYPES = [np.dtype(each) for each in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
HEAD = b"abc"
WORDS = (-(2**31), 2**31 - 1)
TRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def array(seed, n, dtype):
    """Normal numbers, zeros, and a few that are large."""
    rng = np.random.default_rng(seed)
    large = np.where(rng.random(n) < 0.01, float(ml_dtypes.finfo(dtype).max) / 4, 1)
    return (rng.standard_normal(n).clip(-3, 3) * large * (rng.random(n) < 0.9)).astype(dtype)


def key_of(x):
    """The key of the code of an array."""
    checksum = np.uint32(kernels.crc32(x.view(np.uint8)))
    return int(np.int32(WORDS[0]) ^ checksum.view(np.int32)), WORDS[1]


@TRIED
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([0, 1, 8, 127, 128, 129, 4096, 4097]) | st.integers(0, 20000),
    dtype=st.sampled_from(DTYPES),
    bits=st.integers(1, 8),
    log2_block=st.integers(3, 14),
    factor=st.sampled_from([1, 0.3, -1e-3]),
)
def test_codes_and_decoded_values_have_the_bits_of_the_cpu(device, seed, n, dtype, bits, log2_block, factor):
    x, levels, size = array(seed, n, dtype), POSITIVE_LEVELS[bits], 2**log2_block
    key = key_of(x)
    expected = kernels.encode_rotated(x, key, np.asarray(levels), size)
    (code,) = encode([device.put(x)], WORDS, levels, [size], HEAD, 0)
    assert code.tobytes() == HEAD + np.int32(key).tobytes() + expected.tobytes()
    values = kernels.decode_rotated(expected, n, key, np.asarray(levels), size, dtype=dtype)
    form = {"key": key, "levels": levels, "block_size": size}
    device.assert_decoded(PackedValues(expected, n, dtype, form, 0), values, factor)


def test_a_list_is_encoded_in_one_call_that_waits_once(device, fake):
    xs = [array(i, n, dtype) for i, (n, dtype) in enumerate(zip((300, 0, 5000, 1), DTYPES, strict=True))]
    held, before = [device.put(x) for x in xs], fake.calls()
    codes = encode(held, WORDS, POSITIVE_LEVELS[4], [128] * 4, HEAD, 0)
    assert fake.calls()["wait"] - before["wait"] == 1
    for x, code in zip(xs, codes, strict=True):
        expected = kernels.encode_rotated(x, key_of(x), np.asarray(POSITIVE_LEVELS[4]), 128)
        assert code[len(HEAD) + 8 :].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_as_on_the_cpu(device, dtype, value):
    fine, broken = array(1, 500, dtype), array(0, 3000, dtype)
    broken[[7, 2999]] = value
    codec = fedplug.codec("eden(4)")
    with pytest.raises(NonFiniteError) as expected:
        codec.encode_model({"fine": fine, "broken": broken})
    with pytest.raises(NonFiniteError) as refused:
        codec.encode_model({"fine": device.put(fine), "broken": device.put(broken)})
    assert str(refused.value) == str(expected.value)


def test_arrays_and_levels_that_do_not_fit_are_refused(device):
    x = device.put(np.ones(9, np.float16))
    with pytest.raises(ArgumentError, match="the positive levels do not ascend"):
        encode([x], WORDS, (2.0, 1.0), [16], HEAD, 0)
    with pytest.raises(ArgumentError, match="block_size = 12 is not a power of two"):
        encode([x], WORDS, (1.0,), [12], HEAD, 0)
    elsewhere = dataclasses.replace(x, device=1)
    with pytest.raises(fedplug_cuda.DeviceError, match="on the CUDA devices 0, 1"):
        encode([x, elsewhere], WORDS, (1.0,), [16, 16], HEAD, 0)


@pytest.mark.parametrize("operation", ["allocate", "launch", "wait"])
def test_an_encoding_that_the_device_refuses_anywhere_is_an_error(device, fake, operation):
    x = array(0, 300, np.dtype(np.float32))
    codec, held = fedplug.codec("eden(4)"), device.put(x)
    for at in range(100):
        try:
            with fake.failing(operation, at):
                payload, _ = codec.encode(held)
            break
        except fedplug_cuda.DeviceError:
            pass
    assert at > 0
    assert payload == codec.encode(x)[0]


def test_a_sum_takes_values_whose_bound_is_too_large_for_the_model(device):
    """The bound for 2000 numbers of about 1000 is more than a float16."""
    model = np.full(2000, 60, np.float16)
    x = 1000 * array(0, 2000, np.dtype(np.float32)).clip(-3, 3)
    payload, _ = fedplug.codec("eden(4)").encode(x.astype(np.float16))
    here, there = fedplug.Sum.like(model), fedplug.Sum.like(device.put(model))
    for total in (here, there):
        total.add(payload, weight=0.5)
    assert on_host(there.value()).tobytes() == here.value().tobytes()
