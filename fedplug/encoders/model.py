"""An encoder for a given model: an encoder per tensor where it is worth it, wire buffers in and out.

Knows TensorFlow; must not know TFF: `fedplug.process` lifts these functions into federated computations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from fedplug import wire
from fedplug.encoders import framing
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.arithmetic import mean_magnitude
from fedplug.encoders.assignment.base import EncoderAssignment
from fedplug.encoders.assignment.budget import Budget, measured_nmse
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.identity import Identity
from fedplug.errors import ConfigError
from fedplug.registry.specs import Capabilities

__all__ = ["DEFAULT_MIN_SIZE", "ModelEncoder"]

DEFAULT_MIN_SIZE = 64

Buffers = tuple[tf.Tensor, ...]
States = tuple[State, ...]
Control = Mapping[str, tf.Tensor]

_ERROR = ("squared_error", "squared_norm")


class ModelEncoder:
    """Applies an encoder to each tensor of a model; small ones, and those not of floats, are left alone.

    A model is a flat sequence of tensors, known by their `tf.TensorSpec`s. What leaves a client is one buffer
    per tensor: the container of `fedplug.wire`, so that its length is the number of bytes on the wire.
    """

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment,
        specs: Sequence[tf.TensorSpec],
        *,
        min_size: int = DEFAULT_MIN_SIZE,
    ) -> None:
        """Makes an encoder for models of the given specs.

        Args:
            encoder: For every floating-point tensor of at least ``min_size`` elements, or what says which.
            specs: Of the model's tensors, in order; shapes fully known; names, where rules go by them.
            min_size: In elements; smaller tensors are sent as they are.

        Raises:
            ConfigError: ``min_size`` is no whole number of at least 0, there are no tensors, one has a shape
                that is not fully known or a dtype that has no place in a payload, or the encoder does not fit
                the model.
        """
        check_whole("min_size", min_size, 0)
        if not specs:
            raise ConfigError("the model has no tensors, so there is nothing to encode")
        for position, spec in enumerate(specs):
            if not spec.shape.is_fully_defined():
                raise ConfigError(
                    f"tensor {position} of the model has shape {spec.shape}; encoders need known shapes"
                )
            if spec.dtype.name not in wire.DTYPE_CODES:
                raise ConfigError(
                    f"tensor {position} of the model has dtype {spec.dtype.name}, which has no place in a "
                    f"payload; known: {', '.join(wire.DTYPE_CODES)}"
                )
        self.encoder = encoder
        self.min_size = min_size
        self.specs = tuple(specs)
        assigned = encoder.assign(specs) if isinstance(encoder, EncoderAssignment) else [encoder] * len(specs)
        as_it_is = Identity()
        self.encoders = tuple(
            chosen if self._is_encoded(spec) else as_it_is
            for chosen, spec in zip(assigned, specs, strict=True)
        )
        self._budget = encoder if isinstance(encoder, Budget) else None
        if self._budget is not None:
            self._budget.require_feasible(self.min_bytes)

    @property
    def target_bytes(self) -> int | None:
        """What a budget wants a client's buffers to have; None without such a budget."""
        return None if self._budget is None else self._budget.bytes_per_client

    @property
    def megabits_per_second(self) -> float | None:
        """The speed of a client's link, where a budget tells it."""
        return None if self._budget is None else self._budget.megabits_per_second

    @property
    def min_bytes(self) -> int:
        """Of a client's buffers, whatever is sent: containers, and what encoders send at least."""
        return sum(
            _container_bytes(encoder, spec) + encoder.min_bytes(spec)
            for encoder, spec in zip(self.encoders, self.specs, strict=True)
        )

    def adjustable_bytes(self, buffers: Sequence[tf.Tensor]) -> tf.Tensor:
        """Of a client's buffers, the bytes that a budget can change; int64 scalar.

        These are the bodies of the payloads of encoders that can be adjusted.
        """
        bodies = [
            tf.size(buffer, tf.int64) - _container_bytes(encoder, spec)
            for encoder, spec, buffer in zip(self.encoders, self.specs, buffers, strict=True)
            if encoder.adjustable
        ]
        return tf.add_n(bodies) if bodies else tf.zeros([], tf.int64)

    def _is_encoded(self, spec: tf.TensorSpec) -> bool:
        return bool(spec.dtype.is_floating) and spec.shape.num_elements() >= self.min_size

    @property
    def capabilities(self) -> Capabilities:
        """Those of the encoder."""
        return self.encoder.capabilities

    def get_config(self) -> dict[str, Any]:
        """What decides the bytes: the encoder, its configuration, each tensor's wire id, the size rule."""
        return {
            "encoder": self.encoder.name,
            "config": self.encoder.get_config(),
            "wire_ids": [encoder.wire_id for encoder in self.encoders],
            "min_size": self.min_size,
        }

    def init_state(self) -> States:
        """The state of a client that takes part for the first time; one entry per tensor."""
        return tuple(
            encoder.init_state(spec) for encoder, spec in zip(self.encoders, self.specs, strict=True)
        )

    def init_control(self) -> Control:
        """What steers the encoder in the first round; kept by the server, told to the clients.

        With a budget ``{"rate": float32}``, else nothing.
        """
        return {} if self._budget is None else {"rate": tf.constant(1.0)}

    def next_control(self, control: Control, measured: Mapping[str, tf.Tensor]) -> Control:
        """What steers the encoder in the next round.

        Args:
            control: That of this round.
            measured: Of this round ``uplink_bytes`` (int64), the bytes of all buffers; ``adjustable_bytes``
                (int64), the sum of `adjustable_bytes`; ``payloads`` (int32), how many clients sent some; and
                the sums of what `report` says.
        """
        if self._budget is None:
            return control
        return {"rate": self._budget.next_rate(control["rate"], measured, self.encoders)}

    @property
    def reported(self) -> tuple[str, ...]:
        """The names of what `report` says: with a budget of an error what that is made of, else nothing."""
        return _ERROR if self._budget is not None and self._budget.nmse is not None else ()

    def report(
        self, xs: Sequence[tf.Tensor], buffers: Sequence[tf.Tensor], next_states: Sequence[State]
    ) -> dict[str, tf.Tensor]:
        """What the server is told of an update beside its buffers; float32 scalars, to be added up.

        Args:
            xs: What was given to `encode`.
            buffers: What it returned.
            next_states: What it returned.
        """
        if not self.reported:
            return {}
        squares = [
            _squares(x, sent, state)
            for x, sent, state in zip(xs, self.decode(buffers), next_states, strict=True)
            if x.dtype.is_floating
        ]
        sums = (tf.add_n(list(parts)) for parts in zip(*squares, strict=True))
        return dict(zip(_ERROR, sums, strict=True))

    def metrics(self, control: Control, measured: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What a round's metrics tell of the steering; float32 scalars. Arguments as for `next_control`."""
        return {**control, "nmse": measured_nmse(measured)} if self.reported else dict(control)

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
        rate = control["rate"] if control else None
        buffers: dict[int, tf.Tensor] = {}
        next_states: dict[int, State] = {}
        for encoder, places in self._shared():
            mine = [tf.ensure_shape(xs[place], self.specs[place].shape) for place in places]
            adjusted = encoder if rate is None else encoder.at_rate(rate)
            encoded = adjusted.grouped_encode(mine, [states[place] for place in places], round_num)
            for place, (payload, next_state) in zip(places, encoded, strict=True):
                spec = self.specs[place]
                buffers[place] = framing.frame(encoder.to_wire(payload, spec), encoder.wire_id, spec)
                next_states[place] = _like(states[place], next_state, encoder)
        order = range(len(self.specs))
        return tuple(buffers[place] for place in order), tuple(next_states[place] for place in order)

    def _shared(self) -> list[tuple[Encoder, list[int]]]:
        """Each encoder with the places of its tensors; two that are equal are still two."""
        places: dict[int, list[int]] = {}
        for place, encoder in enumerate(self.encoders):
            places.setdefault(id(encoder), []).append(place)
        return [(self.encoders[mine[0]], mine) for mine in places.values()]

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


def _container_bytes(encoder: Encoder, spec: tf.TensorSpec) -> int:
    return len(wire.pack(b"", encoder.wire_id, spec.dtype.name, spec.shape.as_list()))


def _squares(x: tf.Tensor, sent: tf.Tensor, next_state: State) -> tuple[tf.Tensor, tf.Tensor]:
    """``||a - sent||^2`` and ``||a||^2``; with a residual a is what is sent and what is left together."""
    lost = tf.cast(next_state.get("residual", x - sent), tf.float64)
    return _square(lost), _square(lost + tf.cast(sent, tf.float64))


def _square(x: tf.Tensor) -> tf.Tensor:
    mean = mean_magnitude(tf.reshape(x * x, [-1]))  # a sum whose order does not depend on threads
    return tf.cast(mean * tf.cast(tf.size(x), x.dtype), tf.float32)


def _like(state: State, next_state: State, encoder: Encoder) -> State:
    """Puts ``next_state`` in the order of ``state``; refuses one of another structure."""
    if not isinstance(next_state, Mapping) or set(next_state) != set(state):
        raise ConfigError(
            f"encoder {encoder!r} got a state with {sorted(state)} and returned {sorted(next_state)}; "
            "encode must return a state of the same structure"
        )
    return {key: tf.ensure_shape(next_state[key], state[key].shape) for key in state}
