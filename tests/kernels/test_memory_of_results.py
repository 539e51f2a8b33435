"""Large results of kernels reuse the memory of earlier results, and are ordinary arrays otherwise."""

from __future__ import annotations

import concurrent.futures
import gc
import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from fedplug import kernels

LARGE = 1 << 20
FLOAT32 = np.dtype(np.float32)


def test_the_next_large_array_lies_where_the_last_one_lay():
    first = kernels.empty((LARGE,), FLOAT32)
    address = first.ctypes.data
    del first
    assert kernels.empty((LARGE // 2, 2), FLOAT32).ctypes.data == address


def test_a_view_keeps_the_memory():
    first = kernels.empty((LARGE,), FLOAT32)
    first[:] = 7
    view = first[1:3]
    del first
    gc.collect()
    kernels.empty((LARGE,), FLOAT32)[:] = 8
    np.testing.assert_array_equal(view, [7, 7])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8", ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (300, 700), (2, 3, 100_000)], ids=str)
def test_it_is_an_array_as_any_other(shape, dtype):
    made = kernels.empty(shape, np.dtype(dtype))
    assert (made.shape, made.dtype) == (shape, np.dtype(dtype))
    assert made.flags.c_contiguous
    assert made.flags.aligned
    assert made.flags.writeable
    made.fill(1)
    assert made.tobytes() == np.ones(shape, dtype).tobytes()


@pytest.mark.parametrize("shape", [(-1,), (2**62, 2**62), (2**61 + LARGE,)], ids=str)
def test_a_shape_that_no_array_can_have_is_refused(shape):
    with pytest.raises((ValueError, MemoryError)):
        kernels.empty(shape, np.dtype(np.float64))


def test_tracemalloc_counts_it_as_long_as_somebody_has_it():
    tracemalloc.start()
    try:
        made = kernels.empty((LARGE,), FLOAT32)
        assert tracemalloc.get_traced_memory()[0] >= made.nbytes
        del made
        assert tracemalloc.get_traced_memory()[0] < LARGE
    finally:
        tracemalloc.stop()


def test_threads_have_arrays_of_their_own():
    def sum_of(number):
        made = kernels.empty((LARGE // 8,), np.dtype(np.int64))
        made.fill(number)
        return int(made.sum()), made

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sum_of, range(100)))
    assert [total for total, _ in found] == [number * (LARGE // 8) for number in range(100)]
    assert all((made == number).all() for number, (_, made) in enumerate(found))


_WITHOUT_MEMORY = """
import resource
import numpy as np
from fedplug import kernels

kernels.empty((1 << 26,), np.dtype(np.uint8))  # freed at once
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 24), resource.RLIM_INFINITY))
print(kernels.empty((3 << 24,), np.dtype(np.uint8)).size)
"""


def test_unused_blocks_are_freed_when_memory_is_short():
    """Allocates 48 MiB while 64 MiB are idle and the system gives at most 16 MiB."""
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT_MEMORY], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) == 3 << 24
