"""The ops with GPU kernels in a library that was built with CUDA. The tests need no GPU."""

from __future__ import annotations

import json

import pytest
from tensorflow.python.framework import kernels

from fedplug import ops
from fedplug.ops._tensorflow import loader as _loader

HOST_MEMORY = {
    "Fedplug>GroupedTopKResidual": {"k"},
    "Fedplug>ScatterDecodeAdd": set(),
    "Fedplug>ScatterDecode": {"size"},
}


@pytest.fixture(scope="module", autouse=True)
def built_with_cuda():
    _loader.library()
    record = _loader.find_library(ops.__path__).with_name("build_info.json")
    if json.loads(record.read_text())["cuda"] != "ON":
        pytest.skip("the op library was built without CUDA")


@pytest.mark.parametrize("op", HOST_MEMORY)
def test_a_gpu_takes_every_dtype_the_cpu_takes_and_reads_sizes_on_the_host(op):
    dtypes = {"CPU": set(), "GPU": set()}
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        (constraint,) = kernel.constraint
        dtypes[kernel.device_type].update(constraint.allowed_values.list.type)
        if kernel.device_type == "GPU":
            assert set(kernel.host_memory_arg) == HOST_MEMORY[op]
    assert dtypes["GPU"] == dtypes["CPU"]
    assert len(dtypes["GPU"]) == (2 if "TopK" in op else 4)  # selections take no 16-bit types
