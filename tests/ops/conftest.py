"""Fixtures for the tests of the ops: both lowerings, all dtypes, and equality bit for bit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume

DTYPES = (tf.float32, tf.float64, tf.bfloat16, tf.float16)


@pytest.fixture(scope="session", params=["fused", "reference"])
def lowering(request):
    return request.param


@pytest.fixture(scope="session", params=DTYPES, ids=lambda dtype: dtype.name)
def dtype(request):
    return request.param


@pytest.fixture(scope="session", params=DTYPES[:2], ids=lambda dtype: dtype.name)
def wide_dtype(request):
    """float32 and float64, the dtypes of residuals; a module of a selection has it as its ``dtype``."""
    return request.param


def _outcome(op, *arguments, **options):
    try:
        results = op(*arguments, **options)
    except tf.errors.InvalidArgumentError:
        return "refused"
    return [(r.dtype, tuple(r.shape), r.numpy().tobytes()) for r in tf.nest.flatten(results)]


@pytest.fixture(scope="session")
def agree():
    """Asserts that the compiled op and its reference refuse the same call, or return the same bits."""

    def check(op, *arguments, **options):
        fused = _outcome(op, *arguments, lowering="fused", **options)
        assert fused == _outcome(op, *arguments, lowering="reference", **options)

    return check


@pytest.fixture(scope="session")
def agree_on_normals(agree):
    """Asserts as `agree` does, but skips examples of hypothesis whose results are close to a denormal number.

    TensorFlow flushes denormal numbers to zero; the kernels keep them.
    """

    def check(op, *arguments, **options):
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            result = op(*arguments, lowering="fused", **options)
            magnitudes = np.abs(result.numpy().astype(np.float64))
            assume(not np.any((magnitudes > 0) & (magnitudes < 2.0**-100)))
        agree(op, *arguments, **options)

    return check


@pytest.fixture(scope="module")  # a module may have another `dtype`
def as_dtype(dtype):
    """Casts arrays to the dtype under test; an overflow becomes infinite."""

    def cast(*arrays):
        with np.errstate(over="ignore"):
            return tuple(a.astype(dtype.as_numpy_dtype) for a in arrays)

    return cast


@pytest.fixture(scope="module")  # a module may have another `dtype`
def denormal(dtype):
    """A number that TensorFlow's threads flush to zero, except in float16."""
    return {tf.float64: 1e-310, tf.float16: 1e-6}.get(dtype, 1e-39)
