"""Selection on the device has the bits of the CPU's kernels and refuses without changing anything."""

import types

import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda import DeviceError, grouped_topk_residual
from fedplug_cuda.memory import empty_bytes

from fedplug import kernels
from fedplug.errors import ArgumentError, NonFiniteError
from fedplug.ops.device_array import on_host
from fedplug.ops.topk import chunked_topk_residual_of_each

DTYPES = [np.float32, np.float64]
SHAPES = [(300,), (0,), (90, 91), (1,)]


def update(dtype, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return [(scale * rng.standard_normal(shape)).astype(dtype) for shape in SHAPES]


def on_device(device, arrays):
    return [device.put(array) for array in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [0, 1, 500, 10**6])
@pytest.mark.parametrize("place", ["elsewhere", "in place", "without residuals"])
def test_a_list_has_the_bits_of_the_cpu(device, dtype, k, place):
    deltas, residuals = update(dtype, 0), update(dtype, 1)
    held = on_device(device, residuals)
    if place == "without residuals":
        residuals, held = [np.zeros_like(delta) for delta in deltas], None
    values, indices, splits = kernels.grouped_topk_residual(deltas, residuals, k)
    out = {"residuals_out": held} if place == "in place" else {}
    found = grouped_topk_residual(on_device(device, deltas), held, k, **out)
    assert found.values.tobytes() == values.tobytes()
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.row_splits, splits)
    for owner, residual in zip(held if place == "in place" else found.residuals, residuals, strict=True):
        assert device.get(owner, residual).tobytes() == residual.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("change", ["normal", "few levels", "zeros", "denormal"])
@pytest.mark.parametrize(
    ("n", "k", "chunk"),
    [(0, 3, 64), (1, 1, 1), (100, 0, 7), (3001, 3, 1000), (500, 64, 64), (17_000, 700, 9000)],
)
def test_chunks_have_the_bits_of_the_cpu(device, dtype, change, n, k, chunk):
    rng = np.random.default_rng(n)
    factor = {"zeros": 0, "denormal": np.finfo(dtype).tiny / 9}.get(change, 1)
    delta, residual = (factor * rng.standard_normal((2, n))).astype(dtype)
    if change == "few levels":
        delta, residual = np.rint(delta), np.rint(residual)
    after, options = residual.copy(), {"chunk": chunk, "decay": 0.95}
    values, indices = kernels.chunked_topk_residual(delta, after, k, **options)
    (found,) = chunked_topk_residual_of_each([device.put(delta)], [device.put(residual)], [k], **options)
    assert device.get(found.residual, after).tobytes() == after.tobytes()
    assert on_host(found.values).tobytes() == values.tobytes()
    np.testing.assert_array_equal(on_host(found.indices), indices)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bits_are_refused(device, dtype):
    with pytest.raises(ArgumentError, match=f"deltas are {np.dtype(dtype).name}; convert them to float32"):
        grouped_topk_residual([device.put(np.ones(9, dtype))], None, 1)


def test_a_nan_is_refused_and_residuals_keep_their_bits(device):
    deltas, residuals = update(np.float32, 0), update(np.float32, 1)
    deltas[2][5, 5] = np.nan
    held = [device.put(residual) for residual in residuals]
    with pytest.raises(NonFiniteError, match="1 of 8190 sums of delta and residual of tensor 2") as caught:
        grouped_topk_residual([device.put(delta) for delta in deltas], held, 50, residuals_out=held)
    assert caught.value.count == 1
    for array, residual in zip(held, residuals, strict=True):
        assert device.get(array, residual).tobytes() == residual.tobytes()


def test_values_that_do_not_fit_are_refused(device):
    x = device.put(np.ones(10, np.float32))
    with pytest.raises(ArgumentError, match="k = -1 is negative"):
        grouped_topk_residual([x], None, -1)
    with pytest.raises(ArgumentError, match="at least one"):
        grouped_topk_residual([], None, 1)
    with pytest.raises(ArgumentError, match="1 deltas and 2 residuals"):
        grouped_topk_residual([x], [x, x], 1)
    with pytest.raises(ArgumentError, match=r"residuals\[0\] is float32\[9\] and its delta float32\[10\]"):
        grouped_topk_residual([x], [device.put(np.ones(9, np.float32))], 1)
    with pytest.raises(ArgumentError, match="float32 and float64"):
        grouped_topk_residual([x, device.put(np.ones(10))], None, 1)
    with pytest.raises(ArgumentError, match="stream is 'main'"):
        grouped_topk_residual([x], None, 1, stream="main")
    with pytest.raises(ArgumentError, match="is on the host"):
        grouped_topk_residual([np.ones(10, np.float32)], None, 1)


def test_a_list_on_two_devices_is_refused(device):
    x, y = (device.put(np.ones(10, np.float32)) for _ in range(2))
    elsewhere = type(y)(y.owner, y.pointer, y.shape, y.dtype, 1)
    with pytest.raises(DeviceError, match="on the CUDA devices 0, 1"):
        grouped_topk_residual([x], [elsewhere], 1)


def test_a_device_without_memory_says_so(device):
    with pytest.raises(DeviceError, match="memory"):
        empty_bytes(2**50, device.put(np.ones(10, np.float32)), 0)


def test_a_view_that_is_not_contiguous_is_refused():
    described = {"version": 3, "shape": (3, 4), "typestr": "<f4", "data": (256, False), "strides": (4, 12)}
    transposed = types.SimpleNamespace(__cuda_array_interface__=described)
    with pytest.raises(ArgumentError, match=r"shape \[3, 4\] is not C-contiguous"):
        grouped_topk_residual([transposed], None, 1)
