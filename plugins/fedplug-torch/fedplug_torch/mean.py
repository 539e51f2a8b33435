"""The means of several workers' payloads."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops.device_array import DeviceArray, is_on_device
from fedplug_torch.devices import as_operand, as_results

__all__ = ["Payload", "max_payload_bytes", "means_of"]

Payload: TypeAlias = bytes | NDArray[np.uint8]
"""The untrusted bytes of a tensor."""

_TOGETHER = 2**24
"""The sums of consecutive tensors of about this many bytes are in memory at a time."""

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def means_of(
    messages: Mapping[str, Mapping[str, Payload]],
    likes: Mapping[str, torch.Tensor],
    wire_ids: Mapping[str, Container[str]],
    *,
    empty_is_zero: bool = False,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Computes ``(payload_1 + payload_2 + ...) / workers`` in the order of the workers, for equal bits.

    Sparse payloads are added without making them dense. Sums of 16-bit floats are computed in float32 and
    rounded once at the end. With fedplug-cuda, the sums of CUDA tensors are on their device, where all
    tensors are added at the same time. On the host, to save memory, one part of the model follows the other.

    Args:
        messages: Untrusted payloads by name, by worker.
        likes: Tensors of the same shapes, dtypes and devices by name, which are not read.
        wire_ids: Wire ids of the payloads to accept by name, from `Feedback.wire_ids`.
        empty_is_zero: Whether an empty payload counts as zeros. Otherwise it is an error.

    Yields:
        Each name with its mean, of shape and dtype of its tensor; on its device, or on the CPU.

    Raises:
        PayloadError: A payload is invalid, or of another encoder, shape or dtype. The message names worker
            and tensor.
        ArgumentError: A payload is not a buffer. The message names both, too.
    """
    places: dict[torch.device, DeviceArray | None] = {}
    groups: dict[tuple[object, ...], list[str]] = {}
    together = 0
    for name, like in likes.items():
        if like.device not in places:
            place = as_operand(like.detach().new_empty(0)) if like.is_cuda else None
            places[like.device] = place if is_on_device(place) else None
        senders = []
        for worker, sent in messages.items():
            if not empty_is_zero or len(sent[name]):
                senders.append(worker)
        together += like.nbytes
        on_host = places[like.device] is None
        groups.setdefault((together // _TOGETHER if on_host else like.device, *senders), []).append(name)
    for (_, *senders), names in groups.items():
        shapes, dtypes = {}, {}
        for name in names:
            shapes[name] = likes[name].shape
            dtypes[name] = _FLOAT64 if likes[name].dtype is torch.float64 else _FLOAT32
        total = fedplug.ModelSum(shapes, dtypes, wire_ids=wire_ids, beside=places[likes[names[0]].device])
        for worker in senders:
            payloads = dict(zip(names, map(messages[worker].__getitem__, names), strict=True))
            try:
                total.add(payloads)
            except (ArgumentError, PayloadError) as error:
                raise type(error)(f"{worker}, {error}") from error
        sums = as_results(total.value(copy=False))
        # A tensor: on a GPU, PyTorch would multiply by the reciprocal of a number.
        divisor = torch.full((), len(messages), dtype=torch.float32, device=sums[names[0]].device)
        for name in names:
            yield name, sums[name].div_(divisor).to(likes[name].dtype)


def max_payload_bytes(tensor: torch.Tensor) -> int:
    """Returns a size limit for any encoder: uncompressed elements, an index for each, and a header."""
    return tensor.numel() * (tensor.element_size() + 8) + 1024
