"""Dense quantization on the device has the bits of the CPU's kernels, and so have its residuals."""

import fedplug_cuda
import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda.memory import to_host
from fedplug_cuda.values import encode_values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedplug import kernels, ops
from fedplug.errors import ArgumentError, NonFiniteError
from fedplug.ops.types import PackedValues

DTYPES = [np.dtype(each) for each in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
FORMS = ["float16", "bfloat16", "nearest", "qsgd", "sign", "bfp"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-45, -6e-8, 65504.0, 70000.0, -3.3895e38, 3.4028234e38, 1.7e308]
EDGES = [0, 1, 2, 7, 8, 9, 20, 21, 255, 256, 257, 511, 512, 513, 2047, 2048, 2049, 5119, 5120, 5121]
CODES = {
    "seed": st.integers(0, 2**32 - 1),
    "n": st.sampled_from(EDGES) | st.integers(0, 6000),
    "dtype": st.sampled_from(DTYPES),
    "form": st.sampled_from(FORMS),
    "bits": st.integers(2, 8),
    "log2_block": st.integers(0, 13),
}
TRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def array(seed, n, dtype):
    """Normal numbers, among them special ones that the dtype has."""
    rng = np.random.default_rng(seed)
    largest = float(ml_dtypes.finfo(dtype).max)
    special = [value for value in SPECIAL if abs(value) <= largest]
    where = rng.random(n) < rng.choice([0, 0.02, 0.5])
    return np.where(where, rng.choice(special, n), rng.standard_normal(n)).astype(dtype)


@TRIED
@given(**CODES, shift=st.integers(0, 3))
def test_codes_and_residuals_have_the_bits_of_the_cpu(device, seed, n, dtype, form, bits, log2_block, shift):
    options = {"bits": bits, "block_size": 2**log2_block, "seed": seed - 2**31}
    x, residual = array(seed, n, dtype), array(seed + 1, n, ops.wide_dtype(dtype))
    held, kept = device.put(x, shift), device.put(residual, shift)
    codes, none = encode_values([held], None, form, **options)
    assert none == []
    assert codes[0].tobytes() == kernels.encode_values(x, form, **options).tobytes()
    with np.errstate(over="ignore"):
        exact = ops.widened(x) + residual
    if not np.isfinite(exact).all():
        with pytest.raises(NonFiniteError):
            encode_values([held], [kept], form, **options)
        return
    sums = ops.narrowed(exact, dtype)
    expected = kernels.encode_values(sums, form, **options)
    received = kernels.decode_values(expected, n, form, dtype=dtype, bits=bits, block_size=2**log2_block)
    codes, after = encode_values([held], [kept], form, **options)
    assert codes[0].tobytes() == expected.tobytes()
    assert to_host(after[0]).tobytes() == (exact - ops.widened(received)).tobytes()


@TRIED
@given(
    **CODES,
    factor=st.sampled_from([1, 3, 0.3, -1e-3]),
)
def test_decoded_values_have_the_bits_of_the_cpu(device, seed, n, dtype, form, bits, log2_block, factor):
    options = {"form": form, "bits": bits, "block_size": 2**log2_block}
    code = kernels.encode_values(array(seed, n, dtype), **options)
    values = kernels.decode_values(code, n, dtype=dtype, **options)
    device.assert_decoded(PackedValues(code, n, dtype, options, 0), values, factor)


@pytest.mark.parametrize("form", ["qsgd", "sign"])
def test_a_list_is_encoded_in_one_call(device, form):
    """Also of more values than one tile of a checksum and one launch of a mean."""
    sizes, options = (300, 300_001, 5000, 0), {"bits": 4, "block_size": 64, "seed": 7}
    xs = [array(i, n, dtype) for i, (n, dtype) in enumerate(zip(sizes, DTYPES, strict=True))]
    codes, _ = encode_values([device.put(x) for x in xs], None, form, **options)
    expected = [kernels.encode_values(x, form, **options) for x in xs]
    assert [code.tobytes() for code in codes] == [code.tobytes() for code in expected]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_as_on_the_cpu(device, dtype, form, value):
    x = array(0, 3000, dtype)
    x[[7, 2999]] = value
    fine, broken = device.put(array(1, 50, dtype)), device.put(x)
    held = device.put(np.ones(3000, ops.wide_dtype(dtype)))
    with pytest.raises(NonFiniteError) as expected:
        kernels.encode_values(x, form)
    for xs, residuals in (([fine, broken], None), ([broken], [held])):
        with pytest.raises(NonFiniteError) as refused:
            encode_values(xs, residuals, form, bits=8, block_size=256, seed=0)
        assert str(refused.value) == str(expected.value)
        assert refused.value.count == expected.value.count == 2
    assert (to_host(held) == 1).all()


def test_values_that_do_not_fit_are_refused(device):
    x = device.put(np.ones(9, np.float16))
    with pytest.raises(ArgumentError, match="codebook and bounded have no CUDA kernel"):
        encode_values([x], None, "codebook", bits=2, block_size=256, seed=0)
    with pytest.raises(ArgumentError, match="no value code is called 'fsst'"):
        encode_values([x], None, "fsst", bits=2, block_size=256, seed=0)
    with pytest.raises(ArgumentError, match=r"bits = 9 is not in \[2, 8\]"):
        encode_values([x], None, "qsgd", bits=9, block_size=256, seed=0)
    with pytest.raises(ArgumentError, match="must be float32"):
        encode_values([x], [x], "sign", bits=8, block_size=256, seed=0)
    elsewhere = fedplug_cuda.CudaArray(x.owner, x.pointer, x.shape, x.dtype, 1)
    with pytest.raises(fedplug_cuda.DeviceError, match="on the CUDA devices 0, 1"):
        encode_values([x, elsewhere], None, "sign", bits=8, block_size=256, seed=0)
