"""Residuals are kept between steps in float32, in bfloat16 with stochastic rounding, or on the host."""

from __future__ import annotations

import digits
import numpy as np
import pytest
import torch
from fedplug_torch import OuterStep
from fedplug_torch.memory import packed, stochastic_bfloat16, unpacked

from fedplug.errors import ArgumentError

LARGEST = torch.finfo(torch.bfloat16).max


def numbers(size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def slow(x, round_num):
    """Rounds one number at a time, with whole numbers of Python."""
    bits = x.view(torch.int32).tolist()
    mask, rounded = 2**64 - 1, []
    for place, number in enumerate(bits):
        z = (place // 4 + sum(bits) + (round_num << 32)) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        rounded.append((number + (z >> 16 * (place % 4) & 0xFFFF)) >> 16)
    return torch.tensor(rounded, dtype=torch.int16).view(torch.bfloat16)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 1001])
@pytest.mark.parametrize("round_num", [0, 7, 2**31 - 1])
def test_the_bits_are_those_of_the_slow_reference(size, round_num):
    x = numbers(size)
    assert torch.equal(stochastic_bfloat16(x, round_num), slow(x, round_num))


def test_the_bits_do_not_depend_on_threads_or_layout():
    x = numbers((3000, 100))
    expected = stochastic_bfloat16(x, 5)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        assert torch.equal(stochastic_bfloat16(x, 5), expected)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(stochastic_bfloat16(x.T.contiguous().T, 5), expected)


def test_numbers_are_rounded_to_a_neighbour_and_are_right_in_the_mean():
    x = torch.linspace(1, 2, 64)  # between two neighbours of bfloat16, which has 7 bits behind the point here
    draws = torch.stack([stochastic_bfloat16(x, round_num).float() for round_num in range(4000)])
    assert ((draws - x).abs() < 2**-7).all()
    assert (draws.mean(0) - x).abs().max() < 5 * 2**-8 / 4000**0.5


def test_numbers_of_bfloat16_and_the_largest_ones_stay_finite_and_exact():
    exact = torch.tensor([0.0, -0.0, 1.5, -(2.0**-130), LARGEST])
    huge = torch.tensor([torch.finfo(torch.float32).max, -torch.finfo(torch.float32).max])
    for round_num in range(50):
        assert torch.equal(stochastic_bfloat16(exact, round_num).float(), exact)
        assert stochastic_bfloat16(huge, round_num).tolist() == [LARGEST, -LARGEST]


def test_only_residuals_in_float32_are_rounded():
    state = {
        "codec": np.frombuffer(b"text", np.uint8),
        "a/residual": numbers(9).numpy(),
        "b/residual": numbers(9).double().numpy(),
        "a/momentum": numbers(9).numpy(),
    }
    kept = packed(state, "bfloat16", 0)
    assert {key: array.dtype.name for key, array in kept.items()} == {
        "codec": "uint8",
        "a/residual": "bfloat16",
        "b/residual": "float64",
        "a/momentum": "float32",
    }
    wide = unpacked(kept)
    assert all(wide[key].dtype == array.dtype for key, array in state.items())
    for memory in ("host", "device"):
        kept = packed(state, memory, 0)
        assert all(kept[key].dtype == array.dtype for key, array in state.items())


@pytest.mark.parametrize("memory", ["float16", None, True])
def test_what_is_no_choice_is_refused(memory):
    with pytest.raises(ArgumentError, match=r"memory is .*; it must be one of 'device', 'bfloat16', 'host'"):
        OuterStep(digits.network(), "topk(0.1)", inner_steps=1, memory=memory)
