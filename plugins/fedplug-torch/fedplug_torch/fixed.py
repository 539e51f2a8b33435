"""The mean of a tensor over ranks by payloads of a fixed size, for `torch.compile` and CUDA graphs.

The number of bytes follows from the tensor's shape, so one collective is enough and nothing waits for the
device. CPU tensors are encoded by `fedplug.encoder`, CUDA tensors by fedplug-cuda, with the same bytes.
"""

from __future__ import annotations

import functools
import importlib
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

import fedplug
from fedplug import wire
from fedplug.encoders import Encoder
from fedplug.encoders.base import Payload, State
from fedplug.errors import ArgumentError, CapabilityError, NonFiniteError
from fedplug.ops.types import ArraySpec
from fedplug.types import Array
from fedplug_torch.mean import means_of
from fedplug_torch.tensors import as_array, as_tensor, require_dense, wide_dtype

__all__ = ["Encoded", "FixedSize"]

_all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # its name before is deprecated


class Encoded(NamedTuple):
    """A tensor that `FixedSize` has encoded.

    Attributes:
        payload: The bytes. ``[payload_bytes]`` uint8. All zeros if the tensor was refused.
        residual: The residual of the next round. The old one if the tensor was refused.
        non_finite: Number of sums of tensor and residual that are NaN or infinite, int64 scalar on the
            tensor's device. If it is not 0, the tensor was refused.
    """

    payload: torch.Tensor
    residual: torch.Tensor
    non_finite: torch.Tensor


class FixedSize:
    """Averages tensors over ranks, with error feedback and without knowledge of the content on the host.

    >>> import torch
    >>> from fedplug_torch import FixedSize
    >>> mean = FixedSize("topk(count=64, chunk=4096) | codebook(2) | offsets(4096)")
    >>> x = torch.randn(100_000)
    >>> sent = mean.encode(x, mean.zeros(x))
    >>> sent.payload.shape, mean.mean(sent.payload[None], x).count_nonzero()
    (torch.Size([2803]), tensor(1600))

    A tensor with a NaN or infinite sum is refused without an error: its payload counts as zeros, and its
    residual stays. `Encoded.non_finite` says so. Read it as often as you can afford to wait.
    """

    def __init__(self, encoder: object, *, process_group: dist.ProcessGroup | None = None) -> None:
        """Takes an encoder and the process group of `all_reduce`, by default that of all ranks.

        Raises:
            CapabilityError: Payloads of the encoder do not have a fixed size, or its state is more than a
                residual.
        """
        self._encoder = repr(fedplug.encoder(encoder) if isinstance(encoder, str) else encoder)
        self._group = process_group
        _encoder(self._encoder)

    def payload_bytes(self, like: torch.Tensor) -> int:
        """Returns the size of the payload of a tensor of this shape and dtype, which is not read."""
        return _payload_bytes(self._encoder, tuple(like.shape), _name(like))

    def zeros(self, like: torch.Tensor) -> torch.Tensor:
        """Returns the residual of the first round: zeros in float32, or float64 for a tensor of that."""
        return torch.zeros_like(like, dtype=wide_dtype(like), memory_format=torch.contiguous_format)

    def encode(self, tensor: torch.Tensor, residual: torch.Tensor, round_num: int = 0) -> Encoded:
        """Encodes a tensor.

        Args:
            tensor: A dense tensor of floats, on the CPU or on a CUDA device.
            residual: The residual from the previous call for this tensor, or `zeros`. It is not changed.
            round_num: The round number, for the seeds of quantizers.

        Raises:
            ArgumentError: The residual does not fit the tensor, or the tensor cannot be encoded.
            CapabilityError: The tensor is on a CUDA device, and the encoder has no kernels there.
        """
        return Encoded(*encode_fixed(tensor, residual, self._encoder, round_num))

    def mean(self, payloads: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Returns the mean of payloads, ``[ranks, payload_bytes]``, in the order of ranks.

        Args:
            payloads: Untrusted bytes. On a CUDA device an invalid payload makes the mean NaN, because
                nothing waits; on the CPU it raises a PayloadError.
            like: A tensor of the shape, dtype and device of the mean, which is not read.
        """
        return mean_of_fixed(payloads, like, self._encoder)

    def all_reduce(
        self, tensor: torch.Tensor, residual: torch.Tensor, round_num: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Encodes a tensor, sends its payload to all ranks, and averages theirs.

        Returns:
            The mean, which has the same bits on all ranks, and residual and number of non-finite sums as in
            `Encoded`.
        """
        sent = self.encode(tensor, residual, round_num)
        ranks = dist.get_world_size(self._group)
        gathered = sent.payload.new_empty(ranks * sent.payload.numel())
        _all_gather(gathered, sent.payload, group=self._group)
        return self.mean(gathered.view(ranks, -1), tensor), sent.residual, sent.non_finite

    def container(self, payload: torch.Tensor, like: torch.Tensor) -> bytes:
        """Returns the bytes that `fedplug.decode` reads anywhere: the payload with header and checksum."""
        return _container(self._encoder, payload, like)


@torch.library.custom_op("fedplug::encode_fixed", mutates_args=())
def encode_fixed(
    tensor: torch.Tensor, residual: torch.Tensor, encoder: str, round_num: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Encodes a tensor. See `FixedSize.encode`."""
    require_dense(tensor)
    if (
        residual.shape != tensor.shape
        or residual.dtype != wide_dtype(tensor)
        or residual.device != tensor.device
    ):
        raise ArgumentError(
            f"the residual is {residual.dtype}{list(residual.shape)} on {residual.device}, and the tensor "
            f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}; begin with zeros(tensor)"
        )
    if tensor.is_cuda:
        cuda = importlib.import_module("fedplug_cuda")
        sent = cuda.encode_fixed(tensor.detach().contiguous(), residual.contiguous(), _encoder(encoder))
        return sent.payload, sent.residual, sent.non_finite.view(torch.int32)[0].long()
    size = _payload_bytes(encoder, tuple(tensor.shape), _name(tensor))
    try:
        payload, state, spec = _encoded(encoder, as_array(tensor), as_array(residual), round_num)
    except NonFiniteError as error:
        refused = torch.tensor(error.count or 1, device="cpu")
        return torch.zeros(size, dtype=torch.uint8, device="cpu"), residual.contiguous().clone(), refused
    body = as_tensor(np.array(_encoder(encoder).to_wire(payload, spec)))
    after = as_tensor(state["residual"]) if state else residual.contiguous().clone()
    return body, after, torch.tensor(0, device="cpu")


@encode_fixed.register_fake
def _(
    tensor: torch.Tensor, residual: torch.Tensor, encoder: str, round_num: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    size = _payload_bytes(encoder, tuple(map(int, tensor.shape)), _name(tensor))
    return (
        tensor.new_empty(size, dtype=torch.uint8),
        torch.empty_like(residual, memory_format=torch.contiguous_format),
        tensor.new_empty((), dtype=torch.int64),
    )


@torch.library.custom_op("fedplug::mean_of_fixed", mutates_args=())
def mean_of_fixed(payloads: torch.Tensor, like: torch.Tensor, encoder: str) -> torch.Tensor:
    """Averages payloads. See `FixedSize.mean`."""
    size = _payload_bytes(encoder, tuple(like.shape), _name(like))
    if payloads.dtype is not torch.uint8 or payloads.ndim != 2 or payloads.shape[1] != size:
        raise ArgumentError(
            f"payloads are {payloads.dtype}{list(payloads.shape)}; they must be torch.uint8[ranks, {size}]"
        )
    if payloads.is_cuda:
        cuda = importlib.import_module("fedplug_cuda")
        mean = cuda.mean_of_fixed(payloads.contiguous(), like.new_empty(like.shape), _encoder(encoder))
        return mean.to(like.dtype)
    sent = [_container(encoder, row, like) if row.any() else b"" for row in payloads]
    messages = {f"rank {rank}": {"tensor": each} for rank, each in enumerate(sent)}
    wire_ids = {"tensor": {_encoder(encoder).wire_id}}
    return dict(means_of(messages, {"tensor": like}, wire_ids, empty_is_zero=True))["tensor"]


@mean_of_fixed.register_fake
def _(payloads: torch.Tensor, like: torch.Tensor, encoder: str) -> torch.Tensor:
    return torch.empty_like(like, memory_format=torch.contiguous_format)


@functools.cache
def _encoder(text: str) -> Encoder:
    encoder = fedplug.encoder(text)
    if not isinstance(encoder, Encoder) or not encoder.capabilities.fixed_size:
        raise CapabilityError(
            f"payloads of {text!r} have no fixed size; use for instance "
            "'topk(count=64, chunk=4096) | codebook(2) | offsets(4096)'"
        )
    if kept := encoder.init_state(ArraySpec((0,), "float32")).keys() - {"residual"}:
        raise CapabilityError(f"{text!r} keeps {', '.join(sorted(kept))}; only a residual is supported")
    return encoder


@functools.cache
def _payload_bytes(text: str, shape: tuple[int, ...], dtype: str) -> int:
    """Returns the size of every payload of this shape: that of zeros."""
    payload, _, spec = _encoded(text, np.zeros(shape, ArraySpec(shape, dtype).dtype), None, 0)
    return int(_encoder(text).to_wire(payload, spec).size)


def _encoded(text: str, x: Array, residual: Array | None, round_num: int) -> tuple[Payload, State, ArraySpec]:
    encoder, spec = _encoder(text), ArraySpec(x.shape, x.dtype)
    state = encoder.init_state(spec)
    if state and residual is not None:
        state = {"residual": residual}
    return *encoder.encode(x, state, round_num), spec


def _container(text: str, payload: torch.Tensor, like: torch.Tensor) -> bytes:
    body = np.ascontiguousarray(as_array(payload))
    return wire.frame(body, _encoder(text).wire_id, _name(like), tuple(like.shape))


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
