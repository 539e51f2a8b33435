"""The residuals of one rank, which change only after a step that succeeded on all ranks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug.codecs.state import OWNER, require_owner
from fedplug.ops.device_array import is_on_device
from fedplug_torch.devices import as_operands, as_result
from fedplug_torch.mean import expected_of, max_payload_bytes
from fedplug_torch.memory import Memory, packed, unpacked
from fedplug_torch.partition import Part
from fedplug_torch.tensors import arrays_like, as_array

__all__ = ["Feedback", "keeps_momentum"]

_log = logging.getLogger("fedplug")


class Feedback:
    """Encodes parts of a model's parameters with error feedback.

    It holds two states: `encode` writes the next one beside the present one, and `commit` replaces it.

    Attributes:
        codec: The codec for the whole model.
        limits: Maximum size of the payload of each part, by name.
        wire_ids: The expected wire ids of the payload of each part, by name.
    """

    def __init__(self, codec: fedplug.Codec, memory: Memory = "device") -> None:
        self._memory = memory
        self.codec = self._of_parts = codec
        self._kept: dict[str, NDArray[Any]] = {}
        self._next: dict[str, NDArray[Any]] = {}
        self._spare: dict[str, NDArray[Any]] = {}
        self._forms: dict[str, torch.Tensor] = {}
        self.limits: dict[str, int] = {}
        self.wire_ids: dict[str, frozenset[str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Omits everything that belongs to one step."""
        return {**self.__dict__, "_next": {}, "_spare": {}, "_of_parts": self.codec}

    def fit(
        self,
        parameters: Mapping[str, torch.Tensor],
        parts: Sequence[Part],
        mine: Sequence[Part],
        share: float = 1,
    ) -> None:
        """Prepares for the parts of a model; must be called before `encode`, and when the model changes.

        Args:
            parameters: The whole parameters, of which only shapes and dtypes matter.
            parts: The parts that are exchanged.
            mine: The parts that this rank encodes.
            share: The part of a budget that this rank may send, from 0 to 1.

        Raises:
            ConfigError: The encoder does not fit the model.
        """
        arrays, names = arrays_like(parameters), {part.name: part.parameter for part in parts}
        pieces = {part.name: part.of(parameters[part.parameter]) for part in parts}
        self.limits = {name: max_payload_bytes(piece) for name, piece in pieces.items()}
        self.wire_ids = expected_of(self.codec.for_slices(arrays, names), pieces)
        self._of_parts = self.codec.for_slices(arrays, names, share)
        self._forms = {part.name: torch.empty_like(pieces[part.name], device="meta") for part in mine}

    def encode(
        self, pieces: Mapping[str, torch.Tensor], round_num: int, unused: Collection[str]
    ) -> dict[str, bytes]:
        """Returns the payloads of all parts.

        Args:
            pieces: The tensors by name of the part.
            round_num: Number of the round, for schedules and seeds.
            unused: Names of parts that send nothing, as an empty payload, and keep their residuals.

        Raises:
            NonFiniteError: A tensor, or its sum with the residual, is not finite; the message names it.
        """
        if not pieces:
            return {}
        codec, arrays = self._of_parts, as_operands(pieces)
        keys = codec.state_keys(arrays)
        kept = unpacked({OWNER: codec.owner, **self._kept}) if self._kept else None
        before, _ = codec.carry_over(kept, arrays)
        spare = {key: self._spare[key] for key in before or {} if _fits(key, before, self._spare)}
        out = {OWNER: codec.owner, **spare} if before and len(spare) == len(before) - 1 else None
        payloads, after = codec.encode_model(arrays, before, round_num, out=out)
        for name in unused:
            payloads[name] = b""
            for key in keys[name] if before is not None else ():
                if is_on_device(after[key]):  # never written over, so both states may have it
                    after[key] = before[key]
                else:
                    np.copyto(after[key], before[key])
        after.pop(OWNER, None)
        self._next = packed(after, self._memory, round_num)
        return payloads

    def commit(self) -> None:
        """Makes the next state the present one."""
        gone = {key.rpartition("/")[0] for key in self._kept if not _fits(key, self._kept, self._next)}
        if gone:
            _log.warning("the model has changed; the residuals of parameters %s are dropped", sorted(gone))
        self._spare = {} if self._memory == "bfloat16" else self._kept
        self._kept, self._next = self._next, {}

    def discard(self) -> None:
        """Forgets the next state."""
        self._next = {}

    def state(self, prefix: str) -> dict[str, torch.Tensor]:
        """Returns a copy of the present state with a prefix before all names; zeros before a step."""
        kept: Mapping[str, Any] = {OWNER: self.codec.owner, **self._kept}
        if self._forms and not self._kept:
            kept = self._of_parts.carry_over(kept, arrays_like(self._forms))[0] or kept
        return {prefix + key: as_result(array).clone() for key, array in kept.items()}

    def loaded(self, state: Mapping[str, torch.Tensor], prefix: str) -> Feedback:
        """Returns an object of the same codec with the residuals from `state`.

        Raises:
            StateError: The state is of another codec.
        """
        kept = {
            name.removeprefix(prefix): as_array(tensor).copy()
            for name, tensor in state.items()
            if name.startswith(prefix)
        }
        require_owner(kept, self.codec.owner)
        del kept[OWNER]
        other = Feedback(self.codec, self._memory)
        other._kept = kept
        return other


def keeps_momentum(codec: fedplug.Codec, parameters: Mapping[str, torch.Tensor]) -> bool:
    """Returns whether an encoder adds a momentum, so that encoding twice would apply it twice."""
    keys = codec.state_keys(arrays_like(parameters)).values()
    return any(key.endswith("/momentum") for mine in keys for key in mine)


def _fits(key: str, state: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> bool:
    """Returns whether two states have an array of this name, shape and dtype."""
    mine, theirs = state[key], other.get(key)
    return theirs is not None and (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
