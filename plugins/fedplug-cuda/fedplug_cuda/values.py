"""Dense quantization on a CUDA device: values are packed and unpacked there, and only codes are copied."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import ops
from fedplug.errors import ArgumentError, NonFiniteError
from fedplug.ops.types import PackedValues
from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray, require_same_device, stream_handle
from fedplug_cuda.library import NonFiniteCount, ValueCode, Vector, call
from fedplug_cuda.memory import empty, empty_bytes, send, to_device_of_each
from fedplug_cuda.results import Results

__all__ = ["decode", "encode_values"]


def encode_values(
    xs: Sequence[DeviceArray],
    residuals: Sequence[object] | None,
    form: str,
    *,
    bits: int,
    block_size: int,
    seed: int,
) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
    """Encodes arrays as `fedplug.kernels.encode_values` does, bit for bit. Waits once, for the codes.

    Args:
        xs: One or more arrays on one device. float32, float64, float16 or bfloat16.
        residuals: Residuals of the arrays' `fedplug.ops.wide_dtype`, which are added to them first. None in
            the list for zeros. None instead of the list encodes the arrays themselves.
        form: The form of the code. All but "codebook" and "bounded" have a kernel.
        bits: See `fedplug.ops.encode_values`.
        block_size: See `fedplug.ops.encode_values`.
        seed: See `fedplug.ops.encode_values`.

    Returns:
        The codes, on the host, and the next residuals, which are the sums minus the decoded values, or
        no residuals if there were none.

    Raises:
        ArgumentError: There is no kernel for the code, or a residual does not fit its array.
        DeviceError: The arrays are on several devices, or the device or its memory refused the work.
        NonFiniteError: A value or a sum is NaN or infinite. The residuals are unchanged.
    """
    stream, before = to_device_of_each(xs, residuals or [None] * len(xs))
    device = require_same_device([array for array in (*xs, *before) if array is not None])
    code = ValueCode(form.encode(), block_size, bits)
    after: list[DeviceArray] = []
    for x, old in zip(xs, before, strict=True):
        wide = ops.wide_dtype(x.dtype)
        if old is not None and (old.dtype, old.size) != (wide, x.size):
            raise ArgumentError(
                f"a residual is {old.dtype}[{old.size}]; that of {x.dtype}[{x.size}] must be {wide}[{x.size}]"
            )
        if residuals:
            after.append(empty(x.shape, wide, x, stream))
    sizes = [_sizes(x, code) for x in xs]
    parts = [ctypes.sizeof(NonFiniteCount) * len(xs), *(size for size, _ in sizes)]
    results = Results(parts, xs[0], stream)
    reports_at, *codes_at = results.at
    workspace_bytes = max(size for _, size in sizes)
    workspace, workspace_at = empty_bytes(workspace_bytes, xs[0], stream)
    for number, (x, old, code_at) in enumerate(zip(xs, before, codes_at, strict=True)):
        vector = Vector(x.pointer, None, None, x.size)
        if after:
            new = after[number]
            if old is None and new.nbytes:
                call("zero", device, new.pointer, new.nbytes, stream)
            vector = Vector(x.pointer, (new if old is None else old).pointer, new.pointer, x.size)
        report_at = reports_at + ctypes.sizeof(NonFiniteCount) * number
        arguments = (seed % 2**64, workspace_at, workspace_bytes, code_at, report_at, stream)
        call("encode_values", device, DTYPE_CODES[x.dtype], vector, code, *arguments)
    host, *codes = results.fetch()
    del workspace  # not before the stream is through
    reports = (NonFiniteCount * len(xs)).from_buffer_copy(host)
    for x, report in zip(xs, reports, strict=True):
        try:
            call("values_judge", report, x.size)
        except NonFiniteError as error:
            raise NonFiniteError(str(error), count=report.count) from None
    return codes, after


def decode(packed: Sequence[PackedValues], outs: Sequence[DeviceArray], factors: Sequence[Any]) -> None:
    """Writes ``factor * values`` of checked codes over arrays on one device. Each product is rounded once.

    The codes are copied in one transfer, for which it waits. An array of 16 bits takes the values themselves.

    Raises:
        DeviceError: The device or its memory refused the work. The arrays are undefined.
    """
    stream = stream_handle(None, outs[0])
    sent, at = send([each.code for each in packed], outs[0], stream)
    for each, out, factor, address in zip(packed, outs, factors, at, strict=True):
        form = {"bits": 8, "block_size": 1, **each.form}
        code = ValueCode(form["form"].encode(), form["block_size"], form["bits"])
        dtypes = DTYPE_CODES[each.dtype], DTYPE_CODES[out.dtype]
        arguments = (address, out.size, float(factor), out.pointer, stream)
        call("decode_values", out.device, *dtypes, code, *arguments)
    del sent  # not before the kernels are queued


def _sizes(x: DeviceArray, code: object) -> tuple[int, int]:
    """Bytes of the code and of the workspace."""
    found = ctypes.c_uint64(), ctypes.c_uint64()
    call("value_sizes", DTYPE_CODES[x.dtype], code, x.size, *map(ctypes.byref, found))
    return found[0].value, found[1].value
