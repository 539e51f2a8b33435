"""Arrays on a CUDA device, or on the fake device that `make test-cpp` builds.

Without a device the tests skip, unless FEDPLUG_CUDA_LIBRARY names the fake library.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import types

import fedplug_cuda
import numpy as np
import pytest
from fedplug_cuda.library import library
from fedplug_cuda.memory import fetch
from fedplug_cuda.values import decode


def pytest_collection_modifyitems(items):
    reason = fedplug_cuda.problem()
    if reason is None:
        return
    for item in items:
        if "device" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=f"no CUDA device: {reason}"))


class Device:
    """Copies of NumPy arrays on device 0, as a framework without an allocator of its own would hold them."""

    def put(self, array, shift=0):
        """Begins ``shift`` elements after an allocation, as a part of a larger array does."""
        if not shift:
            return fedplug_cuda.to_device(array)
        whole = fedplug_cuda.to_device(np.concatenate([np.zeros(shift, array.dtype), array]))
        return dataclasses.replace(whole, pointer=whole.pointer + shift * array.itemsize, shape=array.shape)

    def get(self, array, like):
        found = fetch(array.pointer, like.nbytes, 0, 0)
        return found.view(like.dtype).reshape(like.shape).copy()

    def assert_decoded(self, packed, values, factor):
        """Decodes a code to these values: times a factor in the types of sums, and as they are."""
        wider = [out for out in (np.float32, np.float64) if out().itemsize >= values.itemsize]
        outs = [np.empty(len(values), out) for out in wider]
        held = [self.put(out) for out in [*outs, values]]
        decode([packed] * len(held), held, [factor] * len(outs) + [1])
        with np.errstate(all="ignore"):
            products = [np.multiply(values, np.asarray(factor, out), dtype=out) for out in wider]
        for found, expected in zip(held, [*products, values], strict=True):
            assert self.get(found, expected).tobytes() == expected.tobytes()


@pytest.fixture
def device():
    return Device()


class FakeDevice:
    """The fake device of csrc/tests/fake_cuda, which counts its operations and fails on demand."""

    OPERATIONS = ("set", "copy", "launch", "wait", "ask", "allocate", "count devices")
    ERRORS = types.MappingProxyType({"memory": 2, "old driver": 35, "no device": 100})

    def __init__(self, library):
        self._calls, self._fail = library.fedplug_fake_cuda_calls, library.fedplug_fake_cuda_fail
        self._calls.argtypes, self._calls.restype = [ctypes.c_int], ctypes.c_int
        self._fail.argtypes, self._fail.restype = [ctypes.c_int] * 3, None

    def calls(self):
        return {name: self._calls(number) for number, name in enumerate(self.OPERATIONS)}

    @contextlib.contextmanager
    def failing(self, operation, at=0, error="memory"):
        """Call number ``at`` of the operation, counted from now, fails."""
        self._fail(self.OPERATIONS.index(operation), at, self.ERRORS[error])
        try:
            yield
        finally:
            self._fail(0, -1, 0)


@pytest.fixture
def fake(device):
    try:
        return FakeDevice(library())
    except AttributeError:
        pytest.skip("a real device counts nothing and fails seldom")
