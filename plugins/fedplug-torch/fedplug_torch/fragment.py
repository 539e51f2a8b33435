"""A part of a model that is exchanged at once: its anchor, its residuals and its message.

Source: Douillard et al. 2025, "Streaming DiLoCo with overlapping communication" (arXiv 2501.18512), where
fragments of the model are exchanged in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug import kernels
from fedplug.codecs.state import OWNER, require_owner
from fedplug_torch.devices import as_operands, as_result
from fedplug_torch.mean import expected_of, max_payload_bytes, means_of
from fedplug_torch.memory import Memory, packed, unpacked
from fedplug_torch.shards import as_dtensor, local_shard, shards_of
from fedplug_torch.tensors import arrays_like, as_array, as_arrays, as_tensor

__all__ = ["Fragment", "Message", "form", "joined"]

_ANCHOR, _PARAMETER, _UNSENT, _CODEC = "anchor/", "parameter/", "unsent/", "codec/"
_MESSAGE, _SENT = "message/", "sent/"
"""The prefixes of tensor names in a state dictionary."""


class Message(NamedTuple):
    """A message of `Fragment.encode`, until `Fragment.settle` records whether it was sent.

    Attributes:
        payloads: The payloads by name of the parameter.
        state: The codec's state if the payloads are sent.
    """

    payloads: dict[str, bytes]
    state: dict[str, NDArray[Any]]


class Fragment:
    """The parameters of a fragment, their values after the last outer step, and what was not sent yet.

    Attributes:
        parameters: The parameters by name.
        limits: Maximum size of a payload, by name.
        dense_bytes: Bytes of the changes without compression.
        message: The message that was encoded and not yet settled, or None.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], codec: fedplug.Codec, memory: Memory) -> None:
        """Records the current parameters; ``memory`` says where residuals and anchors are kept."""
        self.parameters = dict(parameters)
        shards = self._shards()
        self.limits = {name: max_payload_bytes(p) for name, p in shards.items()}
        self.dense_bytes = sum(p.nbytes for p in shards.values())
        self.message: Message | None = None
        self._codec = codec
        self._memory = memory
        self._anchor = {name: self._anchor_of(p) for name, p in shards.items()}
        self._kept: dict[str, NDArray[Any]] | None = None
        self._spare: dict[str, NDArray[Any]] | None = None
        self._unsent: dict[str, NDArray[Any]] = {}  # changes of parameters without residuals

    def checksum(self) -> str:
        """Returns a checksum of the anchor, which is equal on all workers."""
        arrays = (as_array(anchor).reshape(-1).view(np.uint8) for anchor in self._anchor.values())
        return f"{kernels.crc32(b''.join(kernels.crc32(a).to_bytes(4, 'little') for a in arrays)):08x}"

    def encode(self, round_num: int) -> dict[str, bytes]:
        """Encodes the changes since the last outer step, ``anchor - parameter``; replaces the message."""
        changes = {}
        for name, p in self._shards().items():
            changes[name] = _change(self._anchor[name].to(p.device, non_blocking=True), p.detach())
            if name in self._unsent:
                changes[name] += as_tensor(self._unsent[name]).to(p.device)
        out = self._spare if self.message is None else self.message.state
        self._spare = self.message = None  # overwritten from here on
        kept = unpacked(self._kept)
        payloads, after = self._codec.encode_model(as_operands(changes), kept, round_num, out=out)
        self.message = Message(payloads, after)
        return payloads

    def means(self, messages: Mapping[str, Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Returns the mean change of each parameter over all workers; see `means_of`."""
        shards = self._shards()
        return dict(means_of(messages, shards, expected_of(self._codec, shards)))

    def advance(
        self, means: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, alpha: float
    ) -> None:
        """Takes a step of the outer optimizer from the anchor, with the mean changes as gradients.

        Args:
            means: The mean change of each parameter.
            optimizer: The outer optimizer; parameters of other fragments have no gradient during the step.
            alpha: Weight of the worker's own parameters in the new ones.
        """
        everything = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in everything]
        shards = self._shards()
        with torch.no_grad():
            local = {name: p.clone() for name, p in shards.items()} if alpha else {}
            for p in everything:
                p.grad = None
            for name, p in self.parameters.items():
                shards[name].copy_(self._anchor[name])
                p.grad = as_dtensor(means[name].to(p.device), p)
            optimizer.step()
            for name, p in shards.items():
                self._anchor[name].copy_(p)
                if alpha:
                    p.copy_(_mixed(p, local[name], alpha))
            for p, gradient in zip(everything, gradients, strict=True):
                p.grad = gradient

    def settle(self, *, sent: bool, round_num: int) -> None:
        """Records whether the message was sent; otherwise its content is a part of the next one."""
        if self.message is None:
            return
        payloads, state = self.message
        if sent:
            self._unsent = {}
        else:
            state, self._unsent = self._codec.put_back(payloads, state, arrays_like(self._anchor))
        self._spare = self._kept if self._memory != "bfloat16" else None
        self._kept, self.message = packed(state, self._memory, round_num), None

    def drop(self) -> None:
        """Forgets the message, as if it had not been encoded."""
        if self.message is not None:
            self._spare, self.message = self.message.state, None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the tensors that affect the next steps; they may share memory with this object."""
        tensors = {_ANCHOR + name: tensor for name, tensor in self._anchor.items()}
        for name, p in self._shards().items():
            if not torch.equal(p, self._anchor[name].to(p.device)):
                tensors[_PARAMETER + name] = p.detach()
        tensors |= {_UNSENT + name: as_tensor(array) for name, array in self._unsent.items()}
        kept = {OWNER: self._codec.owner, **(self._kept or {})}
        tensors |= {_CODEC + name: as_result(array) for name, array in kept.items()}
        if self.message is not None:
            for name, payload in self.message.payloads.items():
                tensors[_MESSAGE + name] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
            tensors |= {_SENT + name: as_result(array) for name, array in self.message.state.items()}
        return tensors

    def wrong_keys(self, state: Mapping[str, torch.Tensor]) -> set[str]:
        """Returns the keys of a state that are missing, unknown, or of another shape or dtype.

        Raises:
            StateError: The residuals are of another encoder.
        """
        forms = {name: form(p) for name, p in self._shards().items()}
        needed = {_ANCHOR + name: of for name, of in forms.items()}
        possible = {prefix + name: of for name, of in forms.items() for prefix in (_PARAMETER, _UNSENT)}
        wrong = needed.keys() - state.keys()
        payloads = {_MESSAGE + name for name in forms}
        if any(key.startswith((_MESSAGE, _SENT)) for key in state):
            wrong |= payloads - state.keys()
        for key, tensor in state.items():
            known = key.startswith((_CODEC, _SENT)) or (key in payloads and tensor.dtype is torch.uint8)
            if not known and form(tensor) != (needed.get(key) or possible.get(key)):
                wrong.add(key)
        require_owner(_below(state, _CODEC), self._codec.owner)
        for prefix in (_CODEC, _SENT):
            residuals = unpacked(_below(state, prefix)) or {}
            if len(residuals) > 1:
                fitting = self._codec.carry_over(residuals, arrays_like(self._anchor))[0] or {}
                keys = (fitting.keys() | residuals.keys()) - {OWNER}
                wrong |= {prefix + key for key in keys if fitting.get(key) is not residuals.get(key)}
        return wrong

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Loads copies of the tensors of a state without `wrong_keys`."""
        with torch.no_grad():
            for name, p in self._shards().items():
                self._anchor[name].copy_(state[_ANCHOR + name])
                p.copy_(state.get(_PARAMETER + name, self._anchor[name]))
        self._unsent = _below(state, _UNSENT)
        kept = _below(state, _CODEC)
        self._kept, self._spare, self.message = kept if len(kept) > 1 else None, None, None
        payloads = {name: array.tobytes() for name, array in _below(state, _MESSAGE).items()}
        if payloads:
            ordered = {name: payloads[name] for name in self.parameters}
            self.message = Message(ordered, _below(state, _SENT))

    def _shards(self) -> dict[str, torch.Tensor]:
        """Returns what this rank has of each parameter; ``fully_shard`` may replace its memory."""
        return as_arrays(self.parameters, local_shard) or {}

    def _anchor_of(self, parameter: torch.Tensor) -> torch.Tensor:
        """Returns a copy of the parameter, where anchors are kept."""
        if self._memory != "host" or not parameter.is_cuda:
            return parameter.detach().clone()
        return parameter.detach().cpu().pin_memory()


def joined(shared: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the state of a fragment with the anchor of one worker and the residuals of another."""
    state = {key: shared[key] for key in shared if key.startswith(_ANCHOR) or key == _CODEC + OWNER}
    if any(key.startswith(_MESSAGE) for key in own):  # it counts as sent
        return state | {_CODEC + key.removeprefix(_SENT): own[key] for key in own if key.startswith(_SENT)}
    return state | {key: own[key] for key in own if key.startswith((_CODEC, _UNSENT))}


def form(tensor: torch.Tensor) -> str:
    """Returns dtype and shape of a tensor as a text, and which shard of a DTensor this rank has."""
    shard = shards_of({"": tensor}).get("", str(list(tensor.shape)))
    return f"{str(tensor.dtype).removeprefix('torch.')}{shard}"


def _change(anchor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Returns ``anchor - parameter``; 0 for unchanged entries, even if they are infinite or NaN."""
    change = anchor - parameter
    if not change.isfinite().all():
        change[_unchanged(anchor, parameter)] = 0
    return change


def _mixed(shared: torch.Tensor, local: torch.Tensor, alpha: float) -> torch.Tensor:
    """Returns ``(1 - alpha) * shared + alpha * local``; equal entries even if they are infinite or NaN."""
    return torch.where(_unchanged(shared, local), shared, shared.lerp(local, alpha))


def _unchanged(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _below(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, NDArray[Any]]:
    """Returns copies of the tensors in one part of a state dictionary."""
    return {
        key.removeprefix(prefix): as_array(tensor).copy()
        for key, tensor in state.items()
        if key.startswith(prefix)
    }
