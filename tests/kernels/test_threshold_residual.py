"""fedplug.kernels.threshold_residual, compared with NumPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
UINTS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array):
    """The array as unsigned integers: -0 differs from +0."""
    return array.reshape(-1).view(UINTS[array.dtype.itemsize])


@st.composite
def updates(draw):
    """(delta, residual): normal numbers, a few levels with many zeros, or denormal numbers."""
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(st.one_of(st.integers(0, 40), st.sampled_from([255, 2048, 5000])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    fill = draw(
        st.sampled_from(
            [
                lambda: random.standard_normal(n).astype(dtype),
                lambda: (random.integers(-2, 3, n) * np.copysign(1.0, random.standard_normal(n))).astype(
                    dtype
                ),
                lambda: random.integers(0, 50, n).astype(UINTS[dtype.itemsize]).view(dtype),
            ]
        )
    )
    return fill(), fill()


@given(updates(), st.sampled_from([0, 1e-30, 0.5, 1, 2.5758, 1e9, np.inf]))
@settings(deadline=None, max_examples=200)
def test_what_reaches_the_threshold_leaves_and_the_rest_stays_bit_for_bit(update, threshold):
    delta, residual = update
    a = delta + residual
    with np.errstate(over="ignore"):
        chosen = (np.abs(a) >= a.dtype.type(threshold)) & (a != 0)
    values, indices = kernels.threshold_residual(delta, residual, threshold)
    np.testing.assert_array_equal(indices, np.flatnonzero(chosen))
    assert indices.dtype == np.int32
    np.testing.assert_array_equal(bits(values), bits(a[chosen]))
    a[chosen] = 0
    np.testing.assert_array_equal(bits(residual), bits(a))


@pytest.mark.parametrize("threshold", [-1, np.nan, -1e-45])
def test_a_threshold_below_zero_is_refused(threshold):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(errors.ArgumentError, match="threshold is negative or no number"):
        kernels.threshold_residual(x[0], x[1], threshold)


_DIGEST = """
import hashlib, numpy as np
from fedplug import kernels
delta, residual = np.random.default_rng(0).standard_normal((2, 1_500_001)).astype(np.float32)
digest = hashlib.sha256()
for threshold in (3.0, 0.5):
    for part in kernels.threshold_residual(delta, residual, threshold):
        digest.update(part.tobytes())
    digest.update(residual.tobytes())
print(kernels.simd_level(), digest.hexdigest())
"""


def test_neither_threads_nor_simd_level_change_a_bit(has_the_same_bits_everywhere):
    has_the_same_bits_everywhere(_DIGEST)


_WITHOUT_MEMORY = """
import resource
import numpy as np
from fedplug import kernels

delta, residual = np.ones((2, 1 << 24), np.float32)
held = kernels.threshold_residual(delta, residual.copy(), 1)  # keeps its scratch memory
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
unlimited = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24), unlimited[1]))
try:
    kernels.threshold_residual(delta, residual, 1)
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    print((residual == 1).all())
"""


def test_without_memory_for_the_entries_nothing_leaves():
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT_MEMORY], capture_output=True, text=True, check=True
    )
    assert result.stdout == "True\n"
