"""The residuals of one rank, which change only after a step that succeeded on all ranks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug.codecs.pending import Pending
from fedplug.codecs.state import OWNER, require_owner
from fedplug.ops.device_array import is_on_device, on_host
from fedplug_torch.devices import Operand, as_operands, as_result
from fedplug_torch.division import Part
from fedplug_torch.mean import max_payload_bytes
from fedplug_torch.memory import Memory, packed, require_memory, unpacked
from fedplug_torch.tensors import arrays_like, as_array

__all__ = ["Feedback", "State", "below"]

_log = logging.getLogger("fedplug")

State = dict[str, Operand]
"""The arrays of a codec's state without its owner, as they are kept between steps."""


class Feedback:
    """Encodes tensors by name with error feedback.

    Attributes:
        codec: The codec for the whole model.
        residuals: The state of the codec, which is pending from `encode` to `settle`.
        keys: The keys of each tensor in that state.
        limits: Maximum size of each payload, by name.
        wire_ids: The expected wire ids of each payload, by name.
    """

    def __init__(self, codec: fedplug.Codec, memory: Memory = "device", *, spare: bool = True) -> None:
        """Takes the codec. `fit` must be called before `encode`.

        Args:
            codec: The codec for the whole model.
            memory: Where residuals are kept, see `Memory`.
            spare: Whether to keep the memory of a former state for the next one, which is faster.
        """
        require_memory(memory)
        self._memory = memory
        self._keeps_spare = spare and memory != "bfloat16"
        self.codec = self._of_parts = codec
        self._owner = codec.owner
        self.residuals: Pending[State] = Pending({})
        self._forms: dict[str, torch.Tensor] = {}
        self.keys: dict[str, list[str]] = {}
        self.limits: dict[str, int] = {}
        self.wire_ids: dict[str, frozenset[str]] = {}

    def __getstate__(self) -> dict[str, object]:
        """Omits the spare memory, and the codec of parts, which `fit` makes again."""
        residuals = Pending(self.residuals.state, self.residuals.after)
        return {**self.__dict__, "residuals": residuals, "_of_parts": self.codec}

    def fit(
        self,
        tensors: Mapping[str, torch.Tensor],
        parts: Sequence[Part] | None = None,
        mine: Sequence[Part] = (),
        share: float = 1,
    ) -> None:
        """Prepares for a model. Residuals that do not fit it any more are dropped, with a warning.

        Args:
            tensors: The whole tensors, of which only shapes and dtypes matter.
            parts: The parts that are exchanged; by default all tensors, and this rank encodes them.
            mine: The parts that this rank encodes.
            share: The part of a budget that this rank may send, from 0 to 1.

        Raises:
            ConfigError: The encoder does not fit the model.
            StateError: The residuals are of another codec.
        """
        codec, mine_alone, encoded = self.codec, self.codec, dict(tensors)
        pieces = encoded
        if parts is not None:
            pieces = {part.name: part.of(tensors[part.parameter]) for part in parts}
        # First, because a rank that has an error needs them to tell the others.
        self.limits = {name: max_payload_bytes(piece) for name, piece in pieces.items()}
        if parts is not None:
            arrays, names = arrays_like(tensors), {part.name: part.parameter for part in parts}
            encoded = {part.name: pieces[part.name] for part in mine}
            codec, mine_alone = codec.for_slices(arrays, names), codec.for_slices(arrays, names, share)
        arrays = arrays_like(encoded)
        keys = mine_alone.state_keys(arrays) if arrays else {}
        self.wire_ids = codec.wire_ids(arrays_like(pieces))
        self.keys, self._of_parts = keys, mine_alone
        self._forms = {name: torch.empty_like(piece, device="meta") for name, piece in encoded.items()}
        fitting, dropped = self._fitted(self.residuals.state)
        if dropped:
            _log.warning("the model has changed; the residuals of parameters %s are dropped", dropped)
        self.residuals = Pending(fitting)

    def encode(
        self,
        tensors: Mapping[str, torch.Tensor],
        round_num: int,
        unused: Collection[str] = (),
        *,
        again: bool = False,
    ) -> dict[str, bytes]:
        """Returns the payloads of all tensors. Their residuals are pending until `settle`.

        Args:
            tensors: The tensors by name.
            round_num: Number of the round, for schedules and seeds.
            unused: Names of tensors that send nothing, as an empty payload, and keep their residuals.
            again: Whether the residuals of a pending message are added, and not those before it.

        Raises:
            NonFiniteError: A tensor, or its sum with the residual, is not finite. The message names it. A
                pending message stays pending.
        """
        if not tensors:
            return {}
        before = self.residuals.latest if again else self.residuals.state
        if self._memory == "bfloat16":
            before = unpacked(before)
        spare, owner = self.residuals.spare, {OWNER: self._owner}
        payloads, after = self._of_parts.encode_model(
            as_operands(tensors),
            owner | before if before else None,
            round_num,
            out=owner | spare if spare else None,
        )
        for name in unused:
            payloads[name] = b""
            for key in self.keys[name]:
                if is_on_device(after[key]):  # never written over, so both states may have it
                    after[key] = before[key]
                else:
                    np.copyto(after[key], before[key])
        self.residuals = self.residuals.propose(self._packed(after, round_num))
        return payloads

    def settle(self, *, accepted: bool) -> None:
        """Keeps the residuals after the message, or those before it."""
        if self.residuals.after is not None:
            self.residuals = self.settled(accepted=accepted)

    def settled(self, *, accepted: bool) -> Pending[State]:
        """Returns the residuals after `settle`."""
        settled = self.residuals.settle(accepted=accepted)
        return settled if self._keeps_spare else Pending(settled.state)

    def put_back(
        self, payloads: Mapping[str, bytes], round_num: int
    ) -> tuple[Pending[State], dict[str, NDArray[np.generic]]]:
        """Returns the residuals with the content of a pending message that was lost.

        Content of tensors without a residual is returned by name.
        """
        after = {key: np.array(on_host(array)) for key, array in unpacked(self.residuals.latest).items()}
        lost = {}
        for name, form in arrays_like(self._forms).items():
            sent, residual = fedplug.decode(payloads[name], out=form), after.get(f"{name}/residual")
            if residual is None:
                lost[name] = sent
            else:
                residual += sent.astype(residual.dtype)
        return Pending(self._packed(after, round_num)), lost

    def entries(self, prefix: str, pending: str = "") -> dict[str, torch.Tensor]:
        """Returns the residuals for a state dictionary, which may share memory with them.

        Args:
            prefix: The prefix of all names.
            pending: The prefix of the residuals after a pending message; without it, these are left out.
        """
        kept = {prefix + key: array for key, array in self.residuals.state.items()}
        if pending and self.residuals.after is not None:
            kept |= {pending + key: array for key, array in self.residuals.after.items()}
        return {key: as_result(array) for key, array in ({prefix + OWNER: self._owner} | kept).items()}

    def read(self, state: Mapping[str, torch.Tensor], prefix: str, pending: str = "") -> Pending[State]:
        """Returns copies of the residuals in a state dictionary. Those of a new object if it has none.

        Raises:
            StateError: The state is of another codec.
        """
        kept = below(state, prefix)
        require_owner(kept, self._owner)
        del kept[OWNER]
        after = below(state, pending) if pending else {}
        return Pending(kept or self._fitted({})[0], after or None)

    def wrong_keys(self, state: Mapping[str, torch.Tensor], prefix: str) -> set[str]:
        """Returns the keys of residuals of another name, shape or dtype in a state dictionary."""
        expected, found = unpacked(self.residuals.state), unpacked(below(state, prefix))
        found.pop(OWNER, None)
        wrong = _forms_of(expected).items() ^ _forms_of(found).items() if found else ()
        return {prefix + key for key, _ in wrong}

    def _fitted(self, state: State) -> tuple[State, list[str]]:
        """Returns a state as `Codec.carry_over` does. Zeros for tensors that it lacks."""
        if not self._forms:
            return {}, []
        given = {OWNER: self._owner, **unpacked(state)}
        fitting, dropped = self._of_parts.carry_over(given, arrays_like(self._forms))
        return self._packed(fitting or {}, 0), dropped

    def _packed(self, state: Mapping[str, object], round_num: int) -> State:
        kept = packed(state, self._memory, round_num)
        kept.pop(OWNER, None)
        return kept


def below(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, NDArray[np.generic]]:
    """Returns copies of the tensors in one part of a state dictionary."""
    return {
        key.removeprefix(prefix): as_array(tensor).copy()
        for key, tensor in state.items()
        if key.startswith(prefix)
    }


def _forms_of(state: State) -> dict[str, tuple[tuple[int, ...], object]]:
    return {key: (tuple(array.shape), array.dtype) for key, array in state.items()}
