"""Addition on the device has the bits of the CPU's kernel and refuses hostile payloads whole."""

import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda import scatter_decode_add

from fedplug import kernels
from fedplug.errors import ArgumentError, PayloadError

N = 9000


def payloads(dtype, seed=0, count=3):
    rng = np.random.default_rng(seed)
    indices = [np.sort(rng.choice(N, 40 * (i + 1), replace=False)).astype(np.int32) for i in range(count)]
    splits = np.cumsum([0, *map(len, indices)]).astype(np.int64)
    return rng.standard_normal(splits[-1]).astype(dtype), np.concatenate(indices), splits


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_payloads_are_added_with_the_bits_of_the_cpu(device, dtype, weighted):
    values, indices, splits = payloads(dtype)
    total = np.random.default_rng(1).standard_normal(N).astype(dtype)
    weights = np.array([2, 0.5, 3], dtype) if weighted else None
    held = device.put(total)
    scatter_decode_add(held, values, indices, row_splits=splits, weights=weights)
    kernels.scatter_decode_add(total, values, indices, row_splits=splits, weights=weights)
    assert device.get(held, total).tobytes() == total.tobytes()


@pytest.mark.parametrize(
    ("indices", "message"), [([3, 2], "not above"), ([3, N], "not in"), ([-1, 2], "not in")]
)
def test_a_hostile_payload_changes_nothing(device, indices, message):
    total = np.ones(N, np.float32)
    held = device.put(total)
    with pytest.raises(PayloadError, match=message):
        scatter_decode_add(held, np.ones(2, np.float32), np.array(indices, np.int32))
    assert device.get(held, total).tobytes() == total.tobytes()


def test_values_that_do_not_fit_are_refused(device):
    held = device.put(np.ones(N, np.float32))
    with pytest.raises(ArgumentError, match=r"float32\[entries\]"):
        scatter_decode_add(held, np.ones(2), np.array([1, 2], np.int32))
    with pytest.raises(ArgumentError, match=r"they must be float32\[1\]"):
        scatter_decode_add(
            held, np.ones(1, np.float32), np.array([1], np.int32), weights=np.ones(2, np.float32)
        )
