"""What a client keeps between rounds, as plain arrays by name: of one array, and of a whole model.

Beside the encoder's own arrays lies a text, under ``"codec"``, that says which codec they are of. Must not
know how anything is encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, StateError
from fedplug.ops.device_array import is_on_device

__all__ = ["OWNER", "ArrayState", "StateForm", "owner", "require_owner"]

ArrayState = Mapping[str, NDArray[Any]]
"""A state: goes into `fedplug.stores` and safetensors as it is."""

OWNER = "codec"
"""The key of the text that says whose state it is."""

_VERSION = "fedplug state 1"


def owner(encoder: object) -> NDArray[np.uint8]:
    """The text, as an array."""
    return np.frombuffer(f"{_VERSION}: {encoder!r}".encode(), np.uint8)


class StateForm:
    """What the state of one array, or of the arrays of a model, must look like."""

    def __init__(self, first: ArrayState, text: NDArray[np.uint8]) -> None:
        """Reads it off the state of the first round, and the text of its owner."""
        if OWNER in first:
            raise ArgumentError(f"the name {OWNER!r} is taken; neither a tensor nor a state can have it")
        self._arrays = {key: (array.shape, array.dtype) for key, array in first.items()}
        self._keys = self._arrays.keys() | {OWNER}
        self._entries = len(self._keys)
        self._text = text
        self._text_bytes = text.tobytes()

    def tagged(self, state: ArrayState) -> dict[str, NDArray[Any]]:
        """With the text; an empty state stays empty."""
        return {**state, OWNER: self._text} if state else {}

    def require(self, state: Any, *, donated: bool = False) -> ArrayState:
        """The arrays without the text, C-contiguous and aligned.

        Args:
            state: Untrusted.
            donated: They are to be written over; what cannot be, of a mapped file say, is copied.

        Raises:
            StateError: It is of another codec, version, shape or dtype.
        """
        # What `tagged` made is seen at a glance, and nothing is wrong with it.
        if type(state) is not dict or state.get(OWNER) is not self._text or len(state) != self._entries:
            self._require_ours(state)
        arrays = {}
        for key, (shape, dtype) in self._arrays.items():
            array = state.get(key)
            if is_on_device(array) and (array.shape, array.dtype) == (shape, dtype):
                arrays[key] = array
                continue
            if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
                self._require_ours(state)
                form = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else repr(array)
                raise StateError(f"{key!r} of the state: expected {dtype}{list(shape)}, found {form}")
            flags = array.flags
            usable = flags.carray if donated else flags.c_contiguous and flags.aligned
            arrays[key] = array if usable else np.array(array, order="C")
        return arrays

    def _require_ours(self, state: Any) -> None:
        """Raises StateError unless it has the text and the names of this form."""
        if not self._arrays and isinstance(state, Mapping):
            if state:
                raise StateError(f"{_named(self._text_bytes)} keeps no state, and was given {sorted(state)}")
            return
        require_owner(state, self._text)
        if state.keys() != self._keys:
            found_keys = sorted(state.keys() - {OWNER})
            raise StateError(
                f"expected a state with {sorted(self._arrays)}, found {found_keys}; if the model changed, "
                "pass the state through Codec.carry_over"
            )

    @property
    def keys(self) -> Set[str]:
        """The keys of such a state, without that of the text."""
        return self._arrays.keys()

    def fitting(self, state: ArrayState) -> set[str]:
        """The keys whose arrays have the right shape and dtype."""
        return {
            key
            for key, form in self._arrays.items()
            if (getattr(array := state.get(key), "shape", None), getattr(array, "dtype", None)) == form
        }

    def spare(self, out: Any, given: ArrayState) -> list[NDArray[Any]]:
        """The arrays of a state that is not needed any more.

        Raises:
            StateError: It is no such state, or still needed: the one that was given.
        """
        if out is None:
            return []
        arrays = self.require(out, donated=True)
        for key, array in arrays.items():
            if np.may_share_memory(array, given[key]):
                raise StateError(f"{key!r} of out is that of the state itself; pass in_place=True instead")
            if array is not out[key]:
                raise StateError(f"{key!r} of out cannot be written; it must be writable and C-contiguous")
        return list(arrays.values())


def require_owner(state: Any, text: NDArray[np.uint8]) -> None:
    """Raises StateError unless a state is of the codec that this text stands for."""
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
