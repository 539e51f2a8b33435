"""The state of a client between rounds: plain arrays by name, for one array or a whole model.

A text under ``"codec"`` identifies the codec that the arrays belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.errors import ArgumentError, StateError
from fedplug.ops.device_array import is_on_device, on_host

__all__ = ["OWNER", "ArrayState", "StateForm", "owner", "require_owner"]

ArrayState = Mapping[str, NDArray[np.generic]]
"""A state. `fedplug.stores` and safetensors can save it directly."""

OWNER = "codec"
"""The key of the text that identifies the codec."""

_CONTROL = "codec/"
"""Prefix of the entries of rate control."""

_VERSION = "fedplug state 1"


def owner(encoder: str) -> NDArray[np.uint8]:
    """Returns the text that identifies the states of an encoder with this text, as an array."""
    return np.frombuffer(f"{_VERSION}: {encoder}".encode(), np.uint8)


class StateForm:
    """The form of a model's state: one flat dictionary of the arrays of each tensor, and of rate control.

    Attributes:
        keys: The keys of each tensor's own state, by their keys in the model's state. If there is one array
            without a name, both are the same.
        control: The keys of rate control, by their keys in the model's state.
        all_keys: The keys of a model's state.
        text: The text of its codec.
    """

    def __init__(
        self,
        names: Sequence[str | None],
        states: Sequence[ArrayState],
        control: ArrayState,
        text: NDArray[np.uint8],
    ) -> None:
        """Takes the names of the tensors, their states and the control of the first round, and the text."""
        self.keys = [
            {key if name is None else f"{name}/{key}": key for key in state}
            for name, state in zip(names, states, strict=True)
        ]
        self.control = {_CONTROL + key: key for key in control}
        self._groups = [
            [(full, key, own[key].shape, own[key].dtype) for full, key in mine.items()]
            for mine, own in zip([*self.keys, self.control], [*states, control], strict=True)
        ]
        self._arrays = {full: (shape, dtype) for group in self._groups for full, _, shape, dtype in group}
        if OWNER in self._arrays:
            raise ArgumentError(f"the name {OWNER!r} is taken; neither a tensor nor a state can have it")
        if len(self._arrays) < sum(map(len, self._groups)):
            raise ArgumentError(
                f"rate control needs names that begin with {_CONTROL!r}; rename array 'codec'"
            )
        self.all_keys = self._arrays.keys() | {OWNER}
        self._entries = len(self.all_keys) if self._arrays else 0
        self.text = text
        self._text_bytes = text.tobytes()

    def joined(self, states: Iterable[ArrayState], control: ArrayState) -> dict[str, NDArray[np.generic]]:
        """Returns the model's state, with the text. Empty if no tensor has a state."""
        joined = {}
        for mine, own in zip(self.keys, states, strict=True):
            for full, key in mine.items():
                joined[full] = own[key]
        for full, key in self.control.items():
            joined[full] = np.asarray(control[key])
        if joined:
            joined[OWNER] = self.text
        return joined

    def require(self, state: Any, *, donated: bool = False) -> list[ArrayState]:
        """Returns the state of each tensor, and last that of rate control, C-contiguous and aligned.

        Args:
            state: The model's state, untrusted.
            donated: Whether the arrays will be written over, read-only arrays, such as those of a mapped
                file, are copied.

        Raises:
            StateError: The state belongs to another codec, version, shape or dtype.
        """
        # A quick check recognizes the results of `joined`.
        if type(state) is not dict or len(state) != self._entries or state.get(OWNER) is not self.text:
            self._require_ours(state)
        states: list[ArrayState] = []
        for group in self._groups:
            own = {}
            for full, key, shape, dtype in group:
                array = state.get(full)
                on_host = isinstance(array, np.ndarray)
                if not on_host and is_on_device(array) and (array.shape, array.dtype) == (shape, dtype):
                    own[key] = array
                    continue
                if not on_host or array.shape != shape or array.dtype != dtype:
                    self._require_ours(state)
                    form = (
                        f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else repr(array)
                    )
                    raise StateError(f"{full!r} of the state: expected {dtype}{list(shape)}, found {form}")
                flags = array.flags
                usable = flags.carray if donated else flags.c_contiguous and flags.aligned
                own[key] = array if usable else np.array(array, order="C")
            states.append(own)
        return states

    def _require_ours(self, state: Any) -> None:
        """Raises StateError unless it has the text and the names of this form."""
        if not self._arrays and isinstance(state, Mapping):
            if state:
                raise StateError(f"{_named(self._text_bytes)} keeps no state, and was given {sorted(state)}")
            return
        require_owner(state, self.text)
        if state.keys() != self.all_keys:
            found_keys = sorted(state.keys() - {OWNER})
            raise StateError(
                f"expected a state with {sorted(self._arrays)}, found {found_keys}; if the model changed, "
                "pass the state through Codec.carry_over"
            )

    def fitting(self, state: ArrayState) -> dict[str, NDArray[np.generic]]:
        """Returns the arrays of the right shape, with other floats converted if they stay finite."""
        found = {}
        for key, (shape, dtype) in self._arrays.items():
            array: Any = state.get(key)
            if getattr(array, "shape", None) != shape:
                continue
            if array.dtype != dtype and ops.is_floating(array.dtype) and ops.is_floating(dtype):
                with np.errstate(over="ignore"):
                    array = on_host(array).astype(dtype)
                if not np.isfinite(array).all():
                    continue
            if array.dtype == dtype:
                found[key] = array
        return found

    def spare(self, out: Any, given: Sequence[ArrayState]) -> list[NDArray[np.generic]]:
        """Returns the arrays of a state that is no longer needed. None on a device, which makes new ones.

        Args:
            out: The state, untrusted.
            given: The state of each tensor that is still needed, as from `require`.

        Raises:
            StateError: ``out`` is not such a state, or is the given state.
        """
        spare = []
        for group, own, old in zip(self._groups, self.require(out, donated=True), given, strict=True):
            for full, key, _, _ in group:
                array = own[key]
                if np.may_share_memory(array, old[key]):
                    raise StateError(
                        f"{full!r} of out shares memory with the state; pass in_place=True instead"
                    )
                if array is not out[full]:
                    raise StateError(
                        f"{full!r} of out cannot be written; it must be writable and C-contiguous"
                    )
                if not is_on_device(array):
                    spare.append(array)
        return spare


def require_owner(state: object, text: NDArray[np.uint8]) -> None:
    """Raises StateError unless a state belongs to the codec with this text."""
    expected = text.tobytes()
    if not isinstance(state, Mapping):
        raise StateError(f"a state is a dictionary of arrays, not a {type(state).__name__}")
    if OWNER not in state:
        raise StateError(f"a state of {_named(expected)} has the key {OWNER!r}; found {sorted(state)}")
    if (found := np.asarray(state[OWNER]).tobytes()) != expected:
        raise StateError(
            f"the state is of another codec: expected {expected.decode()!r}, "
            f"found {found.decode(errors='replace')!r}"
        )


def _named(text: bytes) -> str:
    return repr(text.decode().partition(": ")[2])
