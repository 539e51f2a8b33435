"""Tensors in fedplug's own functions, which know no framework: they are read without a copy, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedplug
from fedplug.codecs.arrays import as_array
from fedplug.errors import ArgumentError


def payload_of(array):
    return fedplug.codec("topk(0.5)").encode(array)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool"])
def test_tensors_are_seen_without_a_copy(dtype):
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    seen = as_array(x)
    assert (seen.dtype, seen.shape) == (np.dtype(dtype), (3, 4))
    assert seen.ctypes.data == x.data_ptr()
    assert payload_of(x) == payload_of(np.array(seen))
    del seen
    x.resize_(24)  # `Tensor.numpy` would forbid it for ever


def test_tensors_may_require_gradients_and_have_any_strides():
    images = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    weight = torch.nn.Linear(20, 10).weight
    negative = torch.imag(torch.randn(9, dtype=torch.complex64).conj())
    for x in (images, weight, weight.T, weight[::2], negative, torch.randn(3, 1).expand(3, 4)):
        assert payload_of(x) == payload_of(np.array(x.detach().resolve_neg().tolist(), np.float32))
    assert np.shares_memory(as_array(weight), weight.detach().numpy())


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3).to_sparse(), r"pass tensor\.to_dense\(\)"),
        (torch.ones(3, device="meta"), "meta"),
        (torch.ones(3, dtype=torch.complex64), "dtype complex64 cannot be encoded"),
        (torch.ones(3).to(torch.float8_e4m3fn), "float8_e4m3fn cannot be encoded.*a Broadcaster take any"),
        (torch.nn.Linear(2, 2), "a Linear is not an array"),
        (torch.nn.parameter.UninitializedParameter(), "run a lazy model once first"),
    ],
    ids=["sparse", "meta", "complex", "8 bits", "module", "uninitialized"],
)
def test_tensors_without_plain_elements_are_refused(tensor, message):
    with pytest.raises(ArgumentError, match=message):
        payload_of(tensor)
