"""The rotated code on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import errors, kernels

LEVELS = np.array([0.45278, 1.51042])
KEY = (5, -1)


def normal(n=1000, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(n).astype(dtype)


def matrix(size):
    """The Hadamard matrix."""
    h = np.ones((1, 1))
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    return h


@pytest.mark.parametrize("size", [1, 4, 32, 512])
def test_a_code_is_laid_out_as_documented(size):
    x = normal(size)
    code = kernels.encode_rotated(x, KEY, LEVELS, size)
    signs = 1 - 2.0 * np.unpackbits(
        kernels.random_words((size + 31) // 32, *KEY).view(np.uint8), bitorder="little", count=size
    )
    rotated = matrix(size) @ (signs * x)
    levels = np.array([*-LEVELS[::-1], *LEVELS])
    nearest = np.abs(rotated[:, np.newaxis] / np.linalg.norm(x) - levels).argmin(axis=1)
    scale = np.dot(x, x) / np.dot(rotated, levels[nearest])
    bits = np.unpackbits(code[4:], bitorder="little", count=2 * size).reshape(size, 2)
    np.testing.assert_array_equal(bits @ [1, 2], nearest)
    np.testing.assert_allclose(code[:4].view(np.float32)[0], scale, rtol=1e-5)
    np.testing.assert_allclose(
        kernels.decode_rotated(code, size, KEY, LEVELS, size),
        scale * signs * (matrix(size) @ levels[nearest]),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_refused_when_decoded(number):
    x = normal(64)
    x[40] = number
    code = kernels.encode_rotated(x, KEY, LEVELS, 32)
    with pytest.raises(errors.PayloadError, match="a scale is not valid"):
        kernels.decode_rotated(code, 64, KEY, LEVELS, 32)
    kernels.decode_rotated(np.concatenate([code[:4], code[8:16]]), 32, KEY, LEVELS, 32)  # block 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_check_refuses_what_a_decoder_refuses_and_bounds_what_it_returns(dtype):
    x = normal(300, dtype)
    code = kernels.encode_rotated(x, KEY, LEVELS, 128)
    values = kernels.decode_rotated(code, 300, KEY, LEVELS, 128, dtype=dtype)
    assert np.abs(values).max() <= kernels.check_rotated(code, 300, LEVELS, 128, dtype=dtype) < 1000
    x[200] = np.nan
    for broken, count in ((code[:-1], 300), (code, 400), (kernels.encode_rotated(x, KEY, LEVELS, 128), 300)):
        with pytest.raises(errors.PayloadError) as expected:
            kernels.decode_rotated(broken, count, KEY, LEVELS, 128, dtype=dtype)
        with pytest.raises(errors.PayloadError) as refused:
            kernels.check_rotated(broken, count, LEVELS, 128, dtype=dtype)
        assert str(refused.value) == str(expected.value)


def test_numbers_at_the_end_of_the_range_stay_in_it():
    x = np.full(64, np.finfo(np.float32).max)
    back = kernels.decode_rotated(kernels.encode_rotated(x, KEY, LEVELS, 64), 64, KEY, LEVELS, 64)
    assert np.isfinite(back).all()
    assert back.max() == np.finfo(np.float32).max


def test_values_may_be_decoded_into_memory_that_is_there():
    code, out = kernels.encode_rotated(normal(), KEY, LEVELS, 128), np.empty((10, 100), np.float32)
    assert kernels.decode_rotated(code, 1000, KEY, LEVELS, 128, out=out) is out
    np.testing.assert_array_equal(out.ravel(), kernels.decode_rotated(code, 1000, KEY, LEVELS, 128))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kernels.encode_rotated(normal(), KEY, LEVELS, 100),
            "block_size = 100 is not a power of two",
        ),
        (lambda: kernels.encode_rotated(normal(), KEY, LEVELS[::-1].copy(), 128), "do not ascend"),
        (lambda: kernels.encode_rotated(normal(), KEY, [0.5], 128), "levels must be a NumPy array, not list"),
        (lambda: kernels.encode_rotated(normal()[::2], KEY, LEVELS, 128), "not C-contiguous"),
        (lambda: kernels.decode_rotated(np.zeros(4, np.uint8), -1, KEY, LEVELS, 8), "count = -1 is not in"),
        (
            lambda: kernels.decode_rotated(
                np.zeros(6, np.uint8), 2, KEY, LEVELS, 8, out=np.zeros(3, np.float32)
            ),
            "out has 3 elements of float32; it must have 2 of float32",
        ),
    ],
)
def test_a_wrong_argument_is_refused(call, message):
    with pytest.raises(errors.ArgumentError, match=message):
        call()
