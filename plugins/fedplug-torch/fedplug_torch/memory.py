"""Where and how residuals are kept between steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import torch

from fedplug.errors import ArgumentError
from fedplug.ops.device_array import on_host
from fedplug_torch.devices import Operand, as_operand, as_result

__all__ = ["Memory", "packed", "require_memory", "stochastic_bfloat16", "unpacked"]

Memory = Literal["device", "bfloat16", "host"]
"""Where residuals are kept between steps.

- "device": as the codec returns them, in float32 for 16-bit floats; on the GPU if the encoder runs there.
- "bfloat16": in bfloat16 at the same place, by stochastic rounding. float64 stays as it is.
- "host": in host memory, as the codec returns them.
"""

_PER_DRAW = 4
"""Number of 16-bit random numbers in a draw of 64 bits."""


def require_memory(memory: object) -> None:
    """Raises ArgumentError unless the argument is one of `Memory`."""
    if memory not in get_args(Memory):
        raise ArgumentError(
            f"memory is {memory!r}; it must be one of {', '.join(map(repr, get_args(Memory)))}"
        )


def packed(state: Mapping[str, Operand], memory: Memory, round_num: int) -> dict[str, Operand]:
    """Returns a codec's state as it is kept until the next step.

    Rounded to the nearest number of bfloat16, a residual would stop growing at 256 times its gradient.
    """
    if memory == "host":
        return {key: on_host(array) for key, array in state.items()}
    if memory == "device":
        return dict(state)
    return {
        key: as_operand(stochastic_bfloat16(as_result(array), round_num))
        if _is_residual(key) and array.dtype.name == "float32"
        else array
        for key, array in state.items()
    }


def unpacked(state: Mapping[str, Operand]) -> dict[str, Operand]:
    """Returns the state that a codec takes: residuals of bfloat16 become float32."""
    return {
        key: as_operand(as_result(array).float())
        if _is_residual(key) and array.dtype.name == "bfloat16"
        else array
        for key, array in state.items()
    }


def stochastic_bfloat16(x: torch.Tensor, round_num: int) -> torch.Tensor:
    """Rounds up or down at random, so that the mean of the result is the number.

    The random numbers are a hash of the position, the round and the sum of all bits of ``x``. The result is
    therefore the same for any number of threads and on any device.

    Args:
        x: A finite tensor of float32.
        round_num: The round number.
    """
    bits = x.contiguous().view(torch.int32).flatten()
    seed = bits.sum(dtype=torch.int64) + (round_num << 32)
    draws = torch.arange(-(-bits.numel() // _PER_DRAW), device=x.device).add_(seed)
    dither = _mixed(draws).view(torch.int16)[: bits.numel()].to(torch.int32).bitwise_and_(0xFFFF)
    rounded = dither.add_(bits).bitwise_right_shift_(16).to(torch.int16).view(torch.bfloat16)
    largest = torch.finfo(torch.bfloat16).max
    return rounded.clamp_(-largest, largest).view(x.shape)  # numbers beyond would become infinite


def _mixed(draws: torch.Tensor) -> torch.Tensor:
    """Hashes 64-bit integers in place, by Stafford's variant 13 of MurmurHash3's finalizer (SplitMix64)."""
    draws.mul_(-0x61C8864680B583EB)
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        draws.bitwise_xor_((draws >> shift).bitwise_and_((1 << (64 - shift)) - 1)).mul_(factor)
    return draws


def _is_residual(key: str) -> bool:
    return key.rpartition("/")[2] == "residual"
