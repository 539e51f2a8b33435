"""The mean of several workers' payloads for one tensor."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import torch

import fedplug
from fedplug.errors import ArgumentError, PayloadError
from fedplug_torch.tensors import arrays_like, as_tensor

__all__ = ["expected_of", "max_payload_bytes", "mean_of"]


def mean_of(
    messages: Mapping[str, Mapping[str, Any]],
    name: str,
    like: torch.Tensor,
    wire_ids: Container[str],
    *,
    empty_is_zero: bool = False,
) -> torch.Tensor:
    """Computes ``(payload_1 + payload_2 + ...) / workers`` in the order of the workers, for equal bits.

    Sparse payloads are added without making them dense. Sums of 16-bit floats are computed in float32 and
    rounded once at the end.

    Args:
        messages: Untrusted payloads by name, by worker.
        name: The name of the tensor.
        like: A tensor of the same shape and dtype, which is not read.
        wire_ids: Wire ids of the payloads to accept, from `expected_of`.
        empty_is_zero: Whether an empty payload counts as zeros; otherwise it is an error.

    Returns:
        A tensor on the CPU, with shape and dtype of ``like``.

    Raises:
        PayloadError: A payload is invalid, or of another encoder, shape or dtype; the message names worker
            and parameter.
        ArgumentError: A payload is not a buffer; the message names both, too.
    """
    dtype = "float64" if like.dtype is torch.float64 else "float32"
    total = fedplug.Sum(like.shape, dtype, wire_ids=wire_ids)
    for worker, payloads in messages.items():
        if empty_is_zero and not len(payloads[name]):
            continue
        try:
            total.add(payloads[name])
        except (ArgumentError, PayloadError) as error:
            raise type(error)(f"{worker}, parameter {name!r}: {error}") from error
    return as_tensor(total.value()).div_(len(messages)).to(like.dtype)


def expected_of(codec: fedplug.Codec, tensors: Mapping[str, torch.Tensor]) -> dict[str, frozenset[str]]:
    """Returns the wire ids of payloads of these tensors, by name; reads no tensor."""
    return codec.wire_ids(arrays_like(tensors))


def max_payload_bytes(tensor: torch.Tensor) -> int:
    """Returns a size limit for any encoder: uncompressed elements, an index for each, and a header."""
    return tensor.numel() * (tensor.element_size() + 8) + 1024
