"""The mean of what several workers sent for one tensor. Must not know where the payloads come from."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import torch

import fedplug
from fedplug.errors import PayloadError
from fedplug_torch.tensors import as_array, as_tensor

__all__ = ["expected_of", "max_payload_bytes", "mean_of"]


def mean_of(
    messages: Mapping[str, Mapping[str, Any]], name: str, like: torch.Tensor, wire_ids: Container[str]
) -> torch.Tensor:
    """``(payload_1 + payload_2 + ...) / workers``, in the order of the workers, so that all get equal bits.

    Sparse payloads are added without making them dense. Sums of 16-bit floats are made in float32, and
    rounded once at the end.

    Args:
        messages: By worker: payloads by name, untrusted. Empty ones count as zeros.
        name: Of the tensor.
        like: A tensor of its shape and dtype, which is not read.
        wire_ids: The wire ids of payloads to accept, of `expected_of`.

    Returns:
        A tensor on the CPU, of shape and dtype of ``like``.

    Raises:
        PayloadError: A payload cannot be read, or is of another encoder, shape or dtype; the message names
            worker and parameter.
    """
    dtype = "float64" if like.dtype is torch.float64 else "float32"
    total = fedplug.Sum(like.shape, dtype, wire_ids=wire_ids)
    for worker, payloads in messages.items():
        if not len(payloads[name]):
            continue
        try:
            total.add(payloads[name])
        except PayloadError as error:
            raise PayloadError(f"{worker}, parameter {name!r}: {error}") from error
    return as_tensor(total.value()).div_(len(messages)).to(like.dtype)


def expected_of(codec: fedplug.Codec, tensors: Mapping[str, torch.Tensor]) -> dict[str, frozenset[str]]:
    """Returns the wire ids that payloads of these tensors have, by name; reads no tensor."""
    dtypes = {
        name: as_array(tensor.detach().new_empty(0, device="cpu")).dtype for name, tensor in tensors.items()
    }
    return codec.wire_ids({name: np.empty(tensor.shape, dtypes[name]) for name, tensor in tensors.items()})


def max_payload_bytes(tensor: torch.Tensor) -> int:
    """More than any encoder needs for a tensor: its elements as they are, an index for each, and a header."""
    return tensor.numel() * (tensor.element_size() + 8) + 1024
