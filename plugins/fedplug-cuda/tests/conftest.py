"""Arrays on a CUDA device, or on the fake device that `make test-cpp` builds.

Without a device the tests skip, unless FEDPLUG_CUDA_LIBRARY names the fake library.
"""

from __future__ import annotations

import fedplug_cuda
import pytest
from fedplug_cuda.memory import fetch


def pytest_collection_modifyitems(items):
    reason = fedplug_cuda.problem()
    if reason is None:
        return
    for item in items:
        if "device" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=f"no CUDA device: {reason}"))


class Device:
    """Copies of NumPy arrays on device 0, as a framework without an allocator of its own would hold them."""

    def put(self, array):
        return fedplug_cuda.to_device(array)

    def get(self, array, like):
        found = fetch(array.pointer, like.nbytes, 0, 0)
        return found.view(like.dtype).reshape(like.shape).copy()


@pytest.fixture
def device():
    return Device()
