"""The means of several workers' payloads."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch

import fedplug
from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops.device_array import is_on_device
from fedplug_torch.devices import as_operand, as_result

__all__ = ["max_payload_bytes", "means_of"]


def means_of(
    messages: Mapping[str, Mapping[str, Any]],
    likes: Mapping[str, torch.Tensor],
    wire_ids: Mapping[str, Container[str]],
    *,
    empty_is_zero: bool = False,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Computes ``(payload_1 + payload_2 + ...) / workers`` in the order of the workers, for equal bits.

    Sparse payloads are added without making them dense. Sums of 16-bit floats are computed in float32 and
    rounded once at the end. With fedplug-cuda, the sums of CUDA tensors are on their device, where all
    tensors are added at the same time. On the host, one tensor follows the other, to save memory.

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
    places: dict[torch.device, Any] = {}
    groups: dict[Any, list[str]] = {}
    for name, like in likes.items():
        if like.device not in places:
            places[like.device] = as_operand(like.detach().new_empty(0))
        senders = [worker for worker, sent in messages.items() if not empty_is_zero or len(sent[name])]
        group = like.device if is_on_device(places[like.device]) else name, *senders
        groups.setdefault(group, []).append(name)
    for (_, *senders), names in groups.items():
        place = places[likes[names[0]].device]
        total = fedplug.ModelSum(
            {name: likes[name].shape for name in names},
            {name: "float64" if likes[name].dtype is torch.float64 else "float32" for name in names},
            wire_ids=wire_ids,
            beside=place if is_on_device(place) else None,
        )
        for worker in senders:
            try:
                total.add({name: messages[worker][name] for name in names})
            except (ArgumentError, PayloadError) as error:
                raise type(error)(f"{worker}, {error}") from error
        sums = {name: as_result(value) for name, value in total.value(copy=False).items()}
        # A tensor: on a GPU, PyTorch would multiply by the reciprocal of a number.
        divisor = torch.full((), len(messages), dtype=torch.float32, device=sums[names[0]].device)
        for name in names:
            yield name, sums[name].div_(divisor).to(likes[name].dtype)


def max_payload_bytes(tensor: torch.Tensor) -> int:
    """Returns a size limit for any encoder: uncompressed elements, an index for each, and a header."""
    return tensor.numel() * (tensor.element_size() + 8) + 1024
