"""Payloads of a fixed size, made and read on a CUDA device: no call waits, so CUDA graphs can record them."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

import fedplug
from fedplug.encoders import Encoder
from fedplug.encoders.stages import Sparsity
from fedplug.errors import ArgumentError, CapabilityError
from fedplug_cuda.arrays import DTYPE_CODES, DeviceArray, as_device_array, require_same_device, stream_handle
from fedplug_cuda.library import FixedForm, call
from fedplug_cuda.memory import empty, empty_bytes, empty_like
from fedplug_cuda.ops.arrays import widened

__all__ = ["EncodedFixed", "encode_fixed", "mean_of_fixed"]

_NON_FINITE_BYTES = 8


class EncodedFixed(NamedTuple):
    """Arrays on the device, in the framework of the tensor.

    Attributes:
        payload: The body of the payload, uint8. All zeros if the tensor was refused.
        residual: The next residual. The old one if the tensor was refused.
        non_finite: Two uint32 numbers as 8 bytes. The first one counts NaN and infinite sums; if it is not 0,
            the tensor was refused.
    """

    payload: Any
    residual: Any
    non_finite: Any


def encode_fixed(
    tensor: object, residual: object, encoder: Encoder, *, stream: object = None
) -> EncodedFixed:
    """Selects, quantizes and packs ``tensor + decay * residual`` without waiting.

    The payload has the bytes of the body that ``encoder`` writes on the CPU.

    Args:
        tensor: A float32, float16 or bfloat16 array on a CUDA device. Only PyTorch widens 16-bit arrays
            without waiting.
        residual: The float32 residual of the previous round, of the same size. It is not changed.
        encoder: ``topk(..., chunk=n) | codebook(bits) | offsets(n)``, or the same without a codebook.
        stream: The stream to work on. None is the framework's current one.

    Raises:
        ArgumentError: An array does not fit.
        CapabilityError: The encoder has another form.
        DeviceError: The device or its memory refused the work.
    """
    handle = stream_handle(stream, as_device_array(tensor))
    x, old = as_device_array(tensor, handle), as_device_array(residual, handle)
    require_same_device([x, old])
    if x.dtype == np.float64 or old.dtype != np.float32 or old.size != x.size:
        raise ArgumentError(
            f"the tensor is {x.dtype}{list(x.shape)} and the residual {old.dtype}{list(old.shape)}; the "
            "tensor must be float32, float16 or bfloat16, and the residual float32 of the same size"
        )
    if stream is not None and x.dtype != np.float32:
        raise ArgumentError(
            f"the tensor is {x.dtype}, which its framework widens on its current stream; make the stream "
            "current instead of passing it"
        )
    form, decay = _form(encoder, x)
    payload_bytes, workspace_bytes, _ = _sizes(form, 1)
    x = widened(x)
    new = empty_like(x, handle)
    payload, payload_at = empty_bytes(payload_bytes, x, handle)
    non_finite, non_finite_at = empty_bytes(_NON_FINITE_BYTES, x, handle)
    workspace, workspace_at = empty_bytes(workspace_bytes, x, handle)
    addresses = (x.pointer, old.pointer, new.pointer, decay, workspace_at, payload_at, non_finite_at)
    call("fixed_encode", x.device, form, *addresses, handle)
    del workspace  # its framework gives it to later work of this stream only
    return EncodedFixed(payload, new.owner, non_finite)


def mean_of_fixed(payloads: object, like: object, encoder: Encoder, *, stream: object = None) -> Any:
    """Averages payloads of `encode_fixed` in their order without waiting. NaN if one of them is not valid.

    Payloads of zeros only count as zeros.

    Args:
        payloads: Untrusted bytes on a CUDA device. ``[number, payload bytes]`` in any shape, uint8.
        like: An array of the shape and dtype of the tensors on the same device, which is not read.
        encoder: The encoder of the payloads.
        stream: The stream to work on. None is the framework's current one.

    Returns:
        The mean, in float32.

    Raises:
        ArgumentError: The payloads do not have the size that follows from encoder and shape.
        CapabilityError: The encoder has another form.
        DeviceError: The device or its memory refused the work.
    """
    handle = stream_handle(stream, as_device_array(like))
    x = as_device_array(like, handle)
    data = as_device_array(payloads, handle, dtypes=(np.dtype(np.uint8),))
    require_same_device([x, data])
    if x.dtype == np.float64:
        raise ArgumentError(
            "the tensors are float64; on a device, payloads of a fixed size have 16 or 32 bits"
        )
    form, _ = _form(encoder, x)
    payload_bytes, _, _ = _sizes(form, 1)
    number, rest = divmod(data.size, payload_bytes)
    if rest or not number:
        raise ArgumentError(
            f"there are {data.size} bytes; payloads of {encoder!r} for {x.size} elements have {payload_bytes}"
        )
    _, _, workspace_bytes = _sizes(form, number)
    mean = empty(x.shape, np.dtype(np.float32), x, handle)
    workspace, workspace_at = empty_bytes(workspace_bytes, x, handle)
    call("fixed_mean", x.device, form, data.pointer, number, workspace_at, mean.pointer, handle)
    del workspace
    return mean.owner


def _form(encoder: Encoder, x: DeviceArray) -> tuple[FixedForm, float]:
    """The form of the payloads of an array, and the decay of the residual."""
    config = fedplug.to_config(encoder)["config"]
    stages = {stage["name"]: stage["config"] for stage in config.get("stages", [])}
    topk, offsets = stages.pop("topk", {}), stages.pop("offsets", {})
    codebook, chunk = stages.pop("codebook", None), topk.get("chunk")
    stages.pop("identity", None)
    if stages or chunk is None or offsets != {"chunk": chunk} or not topk["error_feedback"]:
        raise CapabilityError(
            f"{encoder!r} does not run on a device without waiting; use "
            "'topk(count=64, chunk=4096) | codebook(2) | offsets(4096)', or leave the codebook out"
        )
    k = Sparsity("topk", topk.get("fraction"), topk.get("count")).of_size(min(chunk, x.size))
    bits = 0 if codebook is None else codebook["bits"]
    return FixedForm(x.size, max(k, 1), chunk, bits, DTYPE_CODES[x.dtype]), topk.get("decay", 1.0)


def _sizes(form: FixedForm, payloads: int) -> tuple[int, int, int]:
    payload, encode, mean = ctypes.c_int64(), ctypes.c_uint64(), ctypes.c_uint64()
    call("fixed_sizes", form, payloads, ctypes.byref(payload), ctypes.byref(encode), ctypes.byref(mean))
    return payload.value, encode.value, mean.value
