"""Executions for ``fedplug bench``: the codec on NumPy arrays, and TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedplug.codecs import codec, decode_model
from fedplug.codecs.state import ArrayState
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import CapabilityError, MissingDependencyError
from fedplug.ops.types import Array

__all__ = [
    "AnyExecution",
    "CodecExecution",
    "Execution",
    "TensorFlowExecution",
]

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
_Payloads: TypeAlias = Mapping[str, bytes]
_Tensors: TypeAlias = Sequence[Array]

_State = TypeVar("_State")
_Sent = TypeVar("_Sent")
_Read = TypeVar("_Read")


class Execution(Protocol[_State, _Sent, _Read]):
    """One encoder, and the arrays to encode in every round.

    The types of states, payloads and decoded arrays depend on the execution.
    """

    def encode(self, state: _State | None, round_num: int) -> tuple[_Sent, _State]:
        """Returns payloads and the next state. ``state`` may be overwritten. None in the first round."""

    def copy(self, state: _State) -> _State:
        """Returns a copy of a state for another call of `encode`."""

    def sizes(self, payloads: _Sent) -> dict[str, int]:
        """Returns the size of each payload in bytes."""

    def decode(self, payloads: _Sent) -> _Read:
        """Decodes the payloads."""

    def arrays(self, decoded: _Read) -> Arrays:
        """Converts the result of `decode` to arrays."""

    def equal(self, payloads: _Sent, others: _Sent) -> bool:
        """Returns whether two results of `encode` have the same bytes."""


AnyExecution: TypeAlias = Execution[Any, Any, Any]


class CodecExecution:
    """Runs `fedplug.codec` in a steady loop: states and decoded arrays are overwritten."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Prepares the codec. Raises the errors of `fedplug.codec`."""
        self._codec = codec(expression)
        self._arrays = arrays
        self._out = {name: np.empty_like(array) for name, array in arrays.items()}
        self._is_one = len(arrays) == 1 and isinstance(self._codec.encoder, Encoder)

    def encode(self, state: ArrayState | None, round_num: int) -> tuple[_Payloads, ArrayState]:
        if not self._is_one:
            return self._codec.encode_model(self._arrays, state, round_num, in_place=state is not None)
        [(name, array)] = self._arrays.items()
        payload, state = self._codec.encode(array, state, round_num, in_place=state is not None)
        return {name: payload}, state

    def copy(self, state: ArrayState) -> ArrayState:
        return {name: array.copy() for name, array in state.items()}

    def sizes(self, payloads: _Payloads) -> dict[str, int]:
        return {name: len(payload) for name, payload in payloads.items()}

    def decode(self, payloads: _Payloads) -> Arrays:
        return decode_model(payloads, out=self._out)

    def arrays(self, decoded: Arrays) -> Arrays:
        return decoded

    def equal(self, payloads: _Payloads, others: _Payloads) -> bool:
        return bool(payloads == others)


class TensorFlowExecution:
    """Runs the encoder in graphs, as on a TFF client and server; with the compiled ops if installed."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Raises the errors of `ModelEncoder`, and CapabilityError if the encoder needs a server."""
        try:
            import tensorflow as tf
        except ModuleNotFoundError as error:
            raise MissingDependencyError("bench --tensorflow", error.name or "") from error
        specs = [tf.TensorSpec(x.shape, tf.as_dtype(x.dtype), name) for name, x in arrays.items()]
        model = ModelEncoder(expression, specs)
        if model.rate_control is not None:
            raise CapabilityError(
                f"{expression} is controlled by a server; it can be timed without --tensorflow"
            )
        self._tf = tf
        self._names = list(arrays)
        self._xs = [tf.constant(x) for x in arrays.values()]
        self._first = model.init_state()
        self._encode = tf.function(model.encode, autograph=False)
        self._decode = tf.function(model.decode, autograph=False, reduce_retracing=True)

    def encode(self, state: _Tensors | None, round_num: int) -> tuple[_Tensors, _Tensors]:
        number = self._tf.constant(round_num)
        before = self._first if state is None else state
        payloads, after = self._encode(self._xs, before, number)
        return payloads, after

    def copy(self, state: _Tensors) -> _Tensors:
        return state  # tensors are immutable

    def sizes(self, payloads: _Tensors) -> dict[str, int]:
        return {name: len(payload) for name, payload in zip(self._names, payloads, strict=True)}

    def decode(self, payloads: _Tensors) -> _Tensors:
        decoded: _Tensors = self._decode(payloads)
        return decoded

    def arrays(self, decoded: _Tensors) -> Arrays:
        return {name: np.asarray(tensor) for name, tensor in zip(self._names, decoded, strict=True)}

    def equal(self, payloads: _Tensors, others: _Tensors) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(payloads, others, strict=True))
