"""A part of a model that is exchanged at once: its anchor, its residuals and its message.

Source: Douillard et al. 2025, "Streaming DiLoCo with overlapping communication" (arXiv 2501.18512), where
fragments of the model are exchanged in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug import kernels
from fedplug.codecs.pending import Pending
from fedplug.codecs.state import OWNER
from fedplug.errors import ArgumentError
from fedplug_torch.feedback import Feedback, State, below
from fedplug_torch.mean import Payload, means_of
from fedplug_torch.memory import Memory
from fedplug_torch.outer_optimizer import revocable
from fedplug_torch.shards import as_dtensor, local_shard, shards_of
from fedplug_torch.tensors import as_array, as_arrays, as_tensor, wide_dtype

__all__ = ["Fragment", "form", "has_message", "joined"]

_ANCHOR, _PARAMETER, _UNSENT, _CODEC = "anchor/", "parameter/", "unsent/", "codec/"
_MESSAGE, _SENT = "message/", "sent/"
"""The prefixes of tensor names in a state dictionary."""


class Fragment:
    """The parameters of a fragment, their values after the last outer step, and the part not sent yet.

    These values, the *anchors*, are float32 for 16-bit parameters, in which sums of small steps would stop
    growing. Parameters are set to the anchor in their own dtype, and changes count from there.

    Attributes:
        parameters: The parameters by name.
        feedback: The residuals, and how changes are encoded.
        dense_bytes: Bytes of the changes without compression.
        message: The payloads that were encoded and not yet applied, by name of the parameter, or None.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], codec: fedplug.Codec, memory: Memory) -> None:
        """Records the current parameters. ``memory`` says where residuals and anchors are kept."""
        self.parameters = dict(parameters)
        shards = self._shards()
        self.feedback = Feedback(codec, memory)
        self.feedback.fit(shards)
        self.dense_bytes = sum(p.nbytes for p in shards.values())
        self.message: dict[str, bytes] | None = None
        self._memory = memory
        self._anchor = {name: self._anchor_of(p) for name, p in shards.items()}
        self._forms = self._present_forms()
        self._unsent: dict[str, NDArray[np.generic]] = {}  # changes of parameters without residuals

    def checksum(self) -> str:
        """Returns a checksum of the anchor, which is equal on all workers."""
        arrays = (as_array(anchor).reshape(-1).view(np.uint8) for anchor in self._anchor.values())
        return f"{kernels.crc32(b''.join(kernels.crc32(a).to_bytes(4, 'little') for a in arrays)):08x}"

    def encode(self, round_num: int) -> dict[str, bytes]:
        """Encodes the changes since the last outer step, ``anchor - parameter``. Replaces the message."""
        self._require_same_forms()
        changes = {}
        for name, p in self._shards().items():
            changes[name] = _change(self._start(name, p), p.detach())
            if name in self._unsent:
                changes[name] += as_tensor(self._unsent[name]).to(p.device)
        self.message = self.feedback.encode(changes, round_num)
        return self.message

    def apply(
        self,
        messages: Mapping[str, Mapping[str, Payload]],
        optimizer: torch.optim.Optimizer,
        alpha: float,
        *,
        sent: bool,
        round_num: int,
        agreed: AbstractContextManager[None],
    ) -> None:
        """Takes a step of the outer optimizer from the anchor, with the mean changes as gradients.

        After an error, this object, the optimizer and the parameters are as before.

        Args:
            messages: Untrusted payloads by name of the parameter, by name of the worker.
            optimizer: The outer optimizer. It steps on copies of this fragment's parameters alone.
            alpha: Weight of the worker's own parameters in the new ones.
            sent: Whether this worker's message was sent. Otherwise its content is a part of the next one.
            round_num: The round number, for stochastic rounding.
            agreed: Raises an error on exit if another worker has one, or on all workers if the body has one.
        """
        with revocable(optimizer) as step_on, agreed:
            self._require_same_forms()
            shards = self._shards()
            copies = {name: self._anchor[name].to(p.device, copy=True) for name, p in shards.items()}
            residuals, unsent = self._settled(sent=sent, round_num=round_num)
            stepped = {}
            for name, mean in means_of(messages, copies, self.feedback.wire_ids):
                p = self.parameters[name]
                stepped[p] = torch.nn.Parameter(as_dtensor(copies[name], p))
                stepped[p].grad = as_dtensor(mean.to(copies[name].device), p)
            step_on(stepped)
            del stepped  # the gradients
            new = {name: copies[name].to(p.dtype) for name, p in shards.items()}
            if alpha:
                new = {name: _mixed(new[name], p.detach(), alpha) for name, p in shards.items()}
        for name, p in shards.items():  # of equal dtypes and places, so that no copy can fail
            self._anchor[name].copy_(copies[name])
            p.copy_(new[name])
        self.feedback.residuals, self._unsent, self.message = residuals, unsent, None

    def _settled(
        self, *, sent: bool, round_num: int
    ) -> tuple[Pending[State], dict[str, NDArray[np.generic]]]:
        """Returns the residuals after the message was sent or lost, and the unsent changes without one."""
        if self.message is None:
            return self.feedback.residuals, self._unsent
        if sent:
            return self.feedback.settled(accepted=True), {}
        return self.feedback.put_back(self.message, round_num)

    def drop(self) -> None:
        """Forgets the message, as if it had not been encoded."""
        self.feedback.settle(accepted=False)
        self.message = None

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns the tensors that affect the next steps. They may share memory with this object."""
        tensors = {_ANCHOR + name: tensor for name, tensor in self._anchor.items()}
        for name, p in self._shards().items():
            tensors[_PARAMETER + name] = p.detach()
        tensors |= {_UNSENT + name: as_tensor(array) for name, array in self._unsent.items()}
        for name, payload in (self.message or {}).items():
            tensors[_MESSAGE + name] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        return tensors | self.feedback.entries(_CODEC, _SENT)

    def wrong_keys(self, state: Mapping[str, torch.Tensor]) -> set[str]:
        """Returns the keys of a state that are missing, unknown, or of another shape or dtype.

        Raises:
            StateError: The residuals are of another encoder.
        """
        shards = self._shards()
        forms = {name: form(p) for name, p in shards.items()}
        needed = {_ANCHOR + name: form(anchor) for name, anchor in self._anchor.items()}
        possible = {prefix + name: of for name, of in forms.items() for prefix in (_PARAMETER, _UNSENT)}
        wrong = needed.keys() - state.keys()
        payloads = {_MESSAGE + name for name in forms}
        if has_message(state):
            wrong |= payloads - state.keys()
        for key, tensor in state.items():
            known = key.startswith((_CODEC, _SENT)) or (key in payloads and tensor.dtype is torch.uint8)
            if not known and form(tensor) != (needed.get(key) or possible.get(key)):
                wrong.add(key)
        self.feedback.read(state, _CODEC)
        return wrong | self.feedback.wrong_keys(state, _CODEC) | self.feedback.wrong_keys(state, _SENT)

    def prepared(self, state: Mapping[str, torch.Tensor]) -> Callable[[], None]:
        """Copies a state without `wrong_keys`. Returns a function that loads it, which cannot fail."""
        shards = self._shards()
        anchors = {name: state[_ANCHOR + name].to(p.device, copy=True) for name, p in shards.items()}
        parameters = {
            name: state.get(_PARAMETER + name, anchors[name]).to(p.device, p.dtype, copy=True)
            for name, p in shards.items()
        }
        residuals, unsent = self.feedback.read(state, _CODEC, _SENT), below(state, _UNSENT)
        payloads = {name: array.tobytes() for name, array in below(state, _MESSAGE).items()}
        message = {name: payloads[name] for name in self.parameters} if payloads else None

        def load() -> None:
            for name, p in shards.items():
                self._anchor[name].copy_(anchors[name])
                p.copy_(parameters[name])
            self.feedback.residuals, self._unsent, self.message = residuals, unsent, message

        return load

    def _present_forms(self) -> dict[str, str]:
        return {name: f"{form(p)} on {p.device}" for name, p in self.parameters.items()}

    def _require_same_forms(self) -> None:
        """Raises ArgumentError if a parameter has another dtype, shape or device than before."""
        for name, now in self._present_forms().items():
            if self._forms[name] != now:
                raise ArgumentError(
                    f"parameter {name!r} was {self._forms[name]}, and is {now}; make another OuterStep of "
                    "the model as it is now"
                )

    def _shards(self) -> dict[str, torch.Tensor]:
        """Returns this rank's part of each parameter. ``fully_shard`` may replace its memory."""
        return as_arrays(self.parameters, local_shard) or {}

    def _anchor_of(self, parameter: torch.Tensor) -> torch.Tensor:
        """Returns a copy of the parameter in the anchor's dtype, where anchors are kept."""
        anchor = parameter.detach().to(wide_dtype(parameter), copy=True)
        return anchor.cpu().pin_memory() if self._memory == "host" and anchor.is_cuda else anchor

    def _start(self, name: str, parameter: torch.Tensor) -> torch.Tensor:
        """Returns the anchor in the parameter's dtype and on its device: where changes count from."""
        return self._anchor[name].to(parameter.device, parameter.dtype, non_blocking=True)


def has_message(state: Mapping[str, torch.Tensor]) -> bool:
    """Returns whether the state of a fragment has a message, or residuals after it."""
    return any(key.startswith((_MESSAGE, _SENT)) for key in state)


def joined(shared: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the state of a fragment with the anchor of one worker and the residuals of another."""
    state = {key: shared[key] for key in shared if key.startswith(_ANCHOR) or key == _CODEC + OWNER}
    if has_message(own):  # it counts as sent
        sent = {_CODEC + key.removeprefix(_SENT): own[key] for key in own if key.startswith(_SENT)}
        return state | {_CODEC + OWNER: own[_CODEC + OWNER]} | sent
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
    """Returns ``(1 - alpha) * shared + alpha * local``. Equal entries even if they are infinite or NaN."""
    return torch.where(_unchanged(shared, local), shared, shared.lerp(local, alpha))


def _unchanged(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())
