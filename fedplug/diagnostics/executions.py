"""What runs the encoders that ``fedplug bench`` times: the codec on NumPy arrays, or TensorFlow's graphs."""

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
    """One encoder, and the arrays that it encodes in every round.

    States and payloads are whatever an execution makes of them.
    """

    def encode(self, state: Any, round_num: int) -> tuple[Any, Any]:
        """The payloads and the next state; ``state`` is None in the first round, and is not used again."""

    def copy(self, state: Any) -> Any:
        """A state that `encode` may be given, too."""

    def sizes(self, payloads: Any) -> dict[str, int]:
        """The bytes of each payload."""

    def decode(self, payloads: Any) -> Any:
        """What the payloads stand for."""

    def arrays(self, decoded: Any) -> Arrays:
        """That as arrays."""

    def equal(self, payloads: Any, others: Any) -> bool:
        """Whether these are the same bytes."""


class CodecExecution:
    """`fedplug.codec` in a steady loop: states and decoded arrays are written over."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Errors as of `fedplug.codec`."""
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
    """The same in graphs, as on a TFF client and server: with the compiled ops where they are installed."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Errors as of `ModelEncoder`, and CapabilityError where the server must steer the encoder."""
        try:
            import tensorflow as tf
        except ModuleNotFoundError as error:
            raise MissingDependencyError("bench --tensorflow", error.name or "") from error
        specs = [tf.TensorSpec(x.shape, tf.as_dtype(x.dtype), name) for name, x in arrays.items()]
        model = ModelEncoder(expression, specs)
        if model.rate_control is not None:
            raise CapabilityError(
                f"{expression} is steered by a server; it can be timed without --tensorflow"
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
        return state  # tensors do not change

    def sizes(self, payloads: Any) -> dict[str, int]:
        return {name: len(payload) for name, payload in zip(self._names, payloads, strict=True)}

    def decode(self, payloads: Any) -> Any:
        return self._decode(payloads)

    def arrays(self, decoded: Any) -> Arrays:
        return {name: tensor.numpy() for name, tensor in zip(self._names, decoded, strict=True)}

    def equal(self, payloads: Any, others: Any) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(payloads, others, strict=True))
