"""Quantization after a random rotation on a CUDA device: only codes are copied."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.ops.types import PackedValues
from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray, require_same_device
from fedplug_cuda.library import RotatedCode, call
from fedplug_cuda.memory import empty_bytes, fetch, layout

__all__ = ["encode", "queue_decode"]

_CHECKSUM_BYTES, _KEY_BYTES = 4, 8


def encode(
    xs: Sequence[DeviceArray],
    words: tuple[int, int],
    levels: Sequence[float],
    block_sizes: Sequence[int],
    head: bytes,
    stream: int,
) -> list[NDArray[np.uint8]]:
    """Encodes arrays as `fedplug.kernels.encode_rotated` does, bit for bit. Waits once, for the codes.

    Args:
        xs: One or more arrays on one device; float32, float64, float16 or bfloat16.
        words: See `fedplug.ops.rotated_code.encode_on_device`.
        levels: See `fedplug.ops.encode_rotated`.
        block_sizes: The block size of each array.
        head: Bytes that come before each key.
        stream: Handle of the stream to work on.

    Returns:
        ``head``, key and code of each array, on the host. A block with a NaN or an infinity has a NaN as its
        scale.

    Raises:
        ArgumentError: The levels or a block size are invalid.
        DeviceError: The arrays are on several devices, or the device or its memory refused the work.
    """
    device = require_same_device(list(xs))
    codes = [_code(words, levels, size) for size in block_sizes]
    sizes = [_sizes(x.dtype, x.size, code) for x, code in zip(xs, codes, strict=True)]
    room = len(head) + _KEY_BYTES
    (checksums_at, *offsets), end = layout(
        [_CHECKSUM_BYTES * len(xs), *(room + size for size, _, _ in sizes)]
    )
    results, at = empty_bytes(end, xs[0], stream)
    workspace_bytes = max(size for _, size, _ in sizes)
    workspace, workspace_at = empty_bytes(workspace_bytes, xs[0], stream)
    for number, (x, code, offset) in enumerate(zip(xs, codes, offsets, strict=True)):
        checksum_at = at + checksums_at + _CHECKSUM_BYTES * number
        arguments = (workspace_at, workspace_bytes, at + offset + room, checksum_at, stream)
        call("encode_rotated", device, DTYPE_CODES[x.dtype], x.pointer, x.size, code, *arguments)
    host = fetch(at, end, device, stream)
    del results, workspace  # not before the stream is through
    checksums = host[checksums_at:][: _CHECKSUM_BYTES * len(xs)].view(np.int32)
    found = []
    for checksum, offset, (size, _, _) in zip(checksums, offsets, sizes, strict=True):
        key = np.int32(words) ^ np.int32([checksum, 0])
        host[offset : offset + room] = np.frombuffer(head + key.tobytes(), np.uint8)
        found.append(host[offset : offset + room + size])
    return found


def queue_decode(packed: PackedValues, out: DeviceArray, factor: float, address: int, stream: int) -> None:
    """Queues ``out = factor * values`` for a checked code that is at an address on the device of ``out``.

    Raises:
        DeviceError: The device or its memory refused the work.
    """
    key = int(packed.form["key"][0]), int(packed.form["key"][1])
    code = _code(key, packed.form["levels"], packed.form["block_size"])
    _, _, workspace_bytes = _sizes(packed.dtype, packed.size, code)
    workspace, workspace_at = empty_bytes(workspace_bytes, out, stream)
    dtypes = DTYPE_CODES[packed.dtype], DTYPE_CODES[out.dtype]
    arguments = (address, packed.size, factor, workspace_at, workspace_bytes, out.pointer, stream)
    call("decode_rotated", out.device, *dtypes, code, *arguments)
    del workspace  # not before the kernels are queued


def _code(key: tuple[int, int], levels: Sequence[float], block_size: int) -> RotatedCode:
    array = (ctypes.c_double * len(levels))(*levels)
    return RotatedCode(block_size, *key, array, len(levels))


def _sizes(dtype: Any, count: int, code: RotatedCode) -> tuple[int, int, int]:
    """Bytes of the code, and of the workspaces of an encoding and of a decoding."""
    found = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    call("rotated_sizes", DTYPE_CODES[dtype], code, count, *map(ctypes.byref, found))
    return found[0].value, found[1].value, found[2].value
