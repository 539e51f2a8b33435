"""The state of a client between rounds: plain arrays by name, for one array or a whole model.

A text under ``"codec"`` identifies the codec that the arrays belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.errors import ArgumentError, StateError
from fedplug.ops.device_array import is_on_device, on_host

__all__ = ["OWNER", "ArrayState", "StateForm", "owner", "require_owner"]

ArrayState = Mapping[str, NDArray[Any]]
"""A state. `fedplug.stores` and safetensors can save it directly."""

OWNER = "codec"
"""The key of the text that identifies the codec."""

_VERSION = "fedplug state 1"


def owner(encoder: object) -> NDArray[np.uint8]:
    """Returns the text that identifies an encoder's states, as an array."""
    return np.frombuffer(f"{_VERSION}: {encoder!r}".encode(), np.uint8)


class StateForm:
    """The expected keys, shapes and dtypes of a state."""

    def __init__(self, first: ArrayState, text: NDArray[np.uint8]) -> None:
        """Takes the form of the state of the first round, and the text of its codec."""
        if OWNER in first:
            raise ArgumentError(f"the name {OWNER!r} is taken; neither a tensor nor a state can have it")
        self._arrays = {key: (array.shape, array.dtype) for key, array in first.items()}
        self._keys = self._arrays.keys() | {OWNER}
        self._entries = len(self._keys)
        self._text = text
        self._text_bytes = text.tobytes()

    def tagged(self, state: ArrayState) -> dict[str, NDArray[Any]]:
        """Returns the state with the text. An empty state stays empty."""
        return {**state, OWNER: self._text} if state else {}

    def require(self, state: Any, *, donated: bool = False) -> ArrayState:
        """Returns the arrays without the text, C-contiguous and aligned.

        Args:
            state: The state, untrusted.
            donated: Whether the arrays will be written over, read-only arrays, such as those of a mapped
                file, are copied.

        Raises:
            StateError: The state belongs to another codec, version, shape or dtype.
        """
        # A quick check recognizes the results of `tagged`.
        if type(state) is not dict or state.get(OWNER) is not self._text or len(state) != self._entries:
            self._require_ours(state)
        arrays = {}
        for key, (shape, dtype) in self._arrays.items():
            array = state.get(key)
            on_host = isinstance(array, np.ndarray)
            if not on_host and is_on_device(array) and (array.shape, array.dtype) == (shape, dtype):
                arrays[key] = array
                continue
            if not on_host or array.shape != shape or array.dtype != dtype:
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
        """The keys of such a state, without the key of the text."""
        return self._arrays.keys()

    def fitting(self, state: ArrayState) -> dict[str, NDArray[Any]]:
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

    def spare(self, out: Any, given: ArrayState) -> list[NDArray[Any]]:
        """Returns the arrays of a state that is no longer needed. None on a device, which makes new ones.

        Raises:
            StateError: ``out`` is not such a state, or is the given state, which is still needed.
        """
        arrays = self.require(out, donated=True)
        for key, array in arrays.items():
            if np.may_share_memory(array, given[key]):
                raise StateError(f"{key!r} of out shares memory with the state; pass in_place=True instead")
            if array is not out[key]:
                raise StateError(f"{key!r} of out cannot be written; it must be writable and C-contiguous")
        return [array for array in arrays.values() if not is_on_device(array)]


def require_owner(state: Any, text: NDArray[np.uint8]) -> None:
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
