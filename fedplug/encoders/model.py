"""An encoder for a whole model: a per-tensor encoder where it is worth it, wire buffers in and out.

Knows TensorFlow; must not know TFF: `fedplug.process` lifts these functions into federated computations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from fedplug.encoders import framing
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.identity import Identity
from fedplug.errors import ConfigError
from fedplug.spec import Capabilities

__all__ = ["DEFAULT_MIN_SIZE", "ModelEncoder"]

DEFAULT_MIN_SIZE = 64

Buffers = tuple[tf.Tensor, ...]
States = tuple[State, ...]
Control = Mapping[str, tf.Tensor]


class ModelEncoder:
    """Applies one encoder to each tensor of a model; small ones, and those not of floats, are left alone.

    A model is a flat sequence of tensors, known by their `tf.TensorSpec`s. What leaves a client is one buffer
    per tensor: the container of `fedplug.wire`, so that its length is the number of bytes on the wire.
    """

    def __init__(
        self, encoder: Encoder, specs: Sequence[tf.TensorSpec], *, min_size: int = DEFAULT_MIN_SIZE
    ) -> None:
        """Makes an encoder for models of the given specs.

        Args:
            encoder: Applied to every floating-point tensor of at least ``min_size`` elements.
            specs: Of the model's tensors, in order; shapes fully known.
            min_size: In elements; smaller tensors are sent as they are.

        Raises:
            ConfigError: ``min_size`` is no whole number of at least 0, or a shape is not fully known.
        """
        if not isinstance(min_size, int) or isinstance(min_size, bool) or min_size < 0:
            raise ConfigError(f"min_size is {min_size!r}; it must be a whole number of elements, 0 or more")
        for position, spec in enumerate(specs):
            if not spec.shape.is_fully_defined():
                raise ConfigError(
                    f"tensor {position} of the model has shape {spec.shape}; encoders need known shapes"
                )
        self.encoder = encoder
        self.min_size = min_size
        self.specs = tuple(specs)
        self.encoders = tuple(encoder if self._is_encoded(spec) else Identity() for spec in specs)

    def _is_encoded(self, spec: tf.TensorSpec) -> bool:
        return bool(spec.dtype.is_floating) and spec.shape.num_elements() >= self.min_size

    @property
    def capabilities(self) -> Capabilities:
        """Those of the per-tensor encoder."""
        return self.encoder.capabilities

    def get_config(self) -> dict[str, Any]:
        """What decides the bytes: the encoder, its configuration and wire id, and the size rule."""
        return {
            "encoder": self.encoder.name,
            "config": self.encoder.get_config(),
            "wire_id": self.encoder.wire_id,
            "min_size": self.min_size,
        }

    def init_state(self) -> States:
        """The state of a client that takes part for the first time; one entry per tensor."""
        return tuple(
            encoder.init_state(spec) for encoder, spec in zip(self.encoders, self.specs, strict=True)
        )

    def init_control(self) -> Control:
        """What steers the encoder in the first round; kept by the server, told to the clients."""
        return {}

    def next_control(self, control: Control, measured: Mapping[str, tf.Tensor]) -> Control:
        """What steers the encoder in the next round.

        Args:
            control: That of this round.
            measured: ``uplink_bytes`` (int64) and ``payloads`` (int32) of this round: the bytes of all
                buffers, and how many clients sent some.
        """
        del measured
        return control

    def encode(
        self,
        xs: Sequence[tf.Tensor],
        states: Sequence[State],
        round_num: tf.Tensor,
        control: Control | None = None,
    ) -> tuple[Buffers, States]:
        """Compresses a model update.

        Args:
            xs: One tensor per spec.
            states: From `init_state` or this client's previous `encode`.
            round_num: int32 scalar.
            control: Of this round; default: that of `init_control`.

        Returns:
            The wire buffers, a uint8 vector per tensor, and the next states.
        """
        del control
        buffers: list[tf.Tensor] = []
        next_states: list[State] = []
        for encoder, spec, x, state in zip(self.encoders, self.specs, xs, states, strict=True):
            payload, next_state = encoder.encode(tf.ensure_shape(x, spec.shape), state, round_num)
            buffers.append(framing.frame(encoder.to_wire(payload, spec), encoder.wire_id, spec))
            next_states.append(_like(state, next_state, encoder))
        return tuple(buffers), tuple(next_states)

    def decode(self, buffers: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """The dense tensors; hostile buffers raise `tf.errors.InvalidArgumentError`."""
        return tuple(
            encoder.decode(payload, spec)
            for encoder, spec, payload in zip(self.encoders, self.specs, self._payloads(buffers), strict=True)
        )

    def accumulate(
        self, accumulators: Sequence[tf.Tensor], buffers: Sequence[tf.Tensor], weight: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """``accumulators + weight * decode(buffers)``, sparse where the encoder is sparse.

        Args:
            accumulators: One dense tensor per spec.
            buffers: From `encode`; hostile ones raise `tf.errors.InvalidArgumentError`.
            weight: Scalar; cast to each tensor's dtype.
        """
        return tuple(
            encoder.accumulate(accumulator, payload, tf.cast(weight, spec.dtype), spec)
            for encoder, spec, accumulator, payload in zip(
                self.encoders, self.specs, accumulators, self._payloads(buffers), strict=True
            )
        )

    def _payloads(self, buffers: Sequence[tf.Tensor]) -> list[Payload]:
        return [
            encoder.from_wire(framing.unframe(buffer, encoder.wire_id, spec), spec)
            for encoder, spec, buffer in zip(self.encoders, self.specs, buffers, strict=True)
        ]


def _like(state: State, next_state: State, encoder: Encoder) -> State:
    """Puts ``next_state`` in the order of ``state``; refuses one of another structure."""
    if not isinstance(next_state, Mapping) or set(next_state) != set(state):
        raise ConfigError(
            f"encoder {encoder!r} got a state with {sorted(state)} and returned {sorted(next_state)}; "
            "encode must return a state of the same structure"
        )
    return {key: tf.ensure_shape(next_state[key], state[key].shape) for key in state}
