"""Executions of encoders for ``fedplug bench``: the codec on NumPy arrays, or TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedplug.codecs import codec, decode_model
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import CapabilityError, MissingDependencyError

__all__ = ["CodecExecution", "Execution", "TensorFlowExecution"]

Arrays = Mapping[str, NDArray[Any]]


class Execution(Protocol):
    """One encoder, and the arrays to encode in every round.

    The types of states and payloads depend on the execution.
    """

    def encode(self, state: Any, round_num: int) -> tuple[Any, Any]:
        """Returns payloads and the next state. ``state`` may be overwritten. None in the first round."""

    def copy(self, state: Any) -> Any:
        """Returns a copy of a state for another call of `encode`."""

    def sizes(self, payloads: Any) -> dict[str, int]:
        """Returns the size of each payload in bytes."""

    def decode(self, payloads: Any) -> Any:
        """Decodes the payloads."""

    def arrays(self, decoded: Any) -> Arrays:
        """Converts the result of `decode` to arrays."""

    def equal(self, payloads: Any, others: Any) -> bool:
        """Returns whether two results of `encode` have the same bytes."""


class CodecExecution:
    """Runs `fedplug.codec` in a steady loop: states and decoded arrays are overwritten."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Prepares the codec. Raises the errors of `fedplug.codec`."""
        self._codec = codec(expression)
        self._arrays = arrays
        self._out = {name: np.empty_like(array) for name, array in arrays.items()}
        self._is_one = len(arrays) == 1 and isinstance(self._codec.encoder, Encoder)

    def encode(self, state: Any, round_num: int) -> tuple[Any, Any]:
        if not self._is_one:
            return self._codec.encode_model(self._arrays, state, round_num, in_place=state is not None)
        [(name, array)] = self._arrays.items()
        payload, state = self._codec.encode(array, state, round_num, in_place=state is not None)
        return {name: payload}, state

    def copy(self, state: Any) -> Any:
        return {name: array.copy() for name, array in state.items()}

    def sizes(self, payloads: Any) -> dict[str, int]:
        return {name: len(payload) for name, payload in payloads.items()}

    def decode(self, payloads: Any) -> Any:
        return decode_model(payloads, out=self._out)

    def arrays(self, decoded: Any) -> Arrays:
        return dict(decoded)

    def equal(self, payloads: Any, others: Any) -> bool:
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
        self._encode: Any = tf.function(model.encode, autograph=False)
        self._decode: Any = tf.function(model.decode, autograph=False, reduce_retracing=True)

    def encode(self, state: Any, round_num: int) -> tuple[Any, Any]:
        round_num = self._tf.constant(round_num)
        payloads, state = self._encode(self._xs, self._first if state is None else state, round_num)
        return payloads, state

    def copy(self, state: Any) -> Any:
        return state  # tensors are immutable

    def sizes(self, payloads: Any) -> dict[str, int]:
        return {name: len(payload) for name, payload in zip(self._names, payloads, strict=True)}

    def decode(self, payloads: Any) -> Any:
        return self._decode(payloads)

    def arrays(self, decoded: Any) -> Arrays:
        return {name: tensor.numpy() for name, tensor in zip(self._names, decoded, strict=True)}

    def equal(self, payloads: Any, others: Any) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(payloads, others, strict=True))
