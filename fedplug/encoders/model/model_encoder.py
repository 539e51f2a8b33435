"""An encoder for a given model: an encoder per tensor where it is worth it, wire buffers in and out.

`fedplug.tff.process` lifts these functions into federated computations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fedplug import ops, wire
from fedplug.encoders import framing
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.model.statistics import is_statistic
from fedplug.encoders.pipeline.as_encoder import as_encoder
from fedplug.encoders.rate_control import Control, RateControl
from fedplug.encoders.standalone.identity import Identity
from fedplug.errors import ConfigError, nearest
from fedplug.ops.dispatch import are_of_tensorflow
from fedplug.ops.types import Array, Spec
from fedplug.registry.component import plain
from fedplug.registry.specs import Capabilities

__all__ = ["DEFAULT_MIN_SIZE", "ModelEncoder"]

DEFAULT_MIN_SIZE = 64

_AS_IT_IS = Identity()

_LOSSLESS = "lossless encoder"
"""The reason for which a tensor is sent exactly by the encoder that is assigned to it."""

Buffers = tuple[Array, ...]
States = tuple[State, ...]


class ModelEncoder:
    """Applies an encoder to each tensor of a model; statistics, small tensors and integers are left alone.

    A model is a flat sequence of tensors, known by their specs. What leaves a client is one buffer
    per tensor: the container of `fedplug.wire`, so that its length is the number of bytes on the wire.

    Attributes:
        sent_exactly: The reason for which each tensor is sent uncompressed, or None.
    """

    def __init__(
        self,
        encoder: Any,
        specs: Sequence[Spec],
        *,
        min_size: int = DEFAULT_MIN_SIZE,
        exactly: Collection[str] = (),
    ) -> None:
        """Makes an encoder for models of the given specs.

        Args:
            encoder: The encoder of every floating-point tensor of at least ``min_size`` elements that is no
                statistic, or an assignment; also what `as_encoder` takes for one.
            specs: The specs of the model's tensors, in order; shapes fully known. Names tell statistics from
                weights, and rules go by them.
            min_size: Minimum number of elements; smaller tensors are sent uncompressed.
            exactly: Names of further tensors that are sent uncompressed.

        Raises:
            ConfigError: ``min_size`` is no whole number of at least 0, there are no tensors, one has a shape
                that is not fully known or a dtype that has no place in a payload, a tensor has 2^31 elements
                or more, ``exactly`` names no tensor, or the encoder does not fit the model.
        """
        min_size = plain(min_size)
        check_whole("min_size", min_size, 0)
        if not specs:
            raise ConfigError("the model has no tensors, so there is nothing to encode")
        for position, spec in enumerate(specs):
            if not ops.has_known_shape(spec):
                raise ConfigError(
                    f"tensor {position} of the model has shape {spec.shape}; encoders need known shapes"
                )
            if spec.dtype.name not in wire.DTYPE_CODES:
                raise ConfigError(
                    f"tensor {position} of the model has dtype {spec.dtype.name}, which has no place in a "
                    f"payload; known: {', '.join(wire.DTYPE_CODES)}"
                )
            _require_size([spec], f"tensor {spec.name or position!r} has")
        encoder = as_encoder(encoder)
        self.encoder: Encoder | EncoderAssignment = encoder
        self.min_size = min_size
        self.specs = tuple(specs)
        names = [spec.name or "" for spec in specs]
        for name in sorted(exactly):
            if name not in names:
                raise ConfigError(f"exactly names {name!r}, no tensor of the model; {nearest(name, names)}")
        self._exactly = exactly
        assigned = encoder.assign(specs) if isinstance(encoder, EncoderAssignment) else [encoder] * len(specs)
        self.sent_exactly = tuple(map(self._why_exactly, assigned, specs))
        self.encoders = tuple(
            chosen if reason in (None, _LOSSLESS) else _uncompressed(chosen, spec)
            for chosen, spec, reason in zip(assigned, specs, self.sent_exactly, strict=True)
        )
        self._headers = [
            framing.header(each.wire_id, spec) for each, spec in zip(self.encoders, specs, strict=True)
        ]
        for shared, places in self._shared():
            if shared.chooses_among_tensors:
                compared = [self.specs[place] for place in places]
                largest = max(compared, key=ops.num_elements).name
                _require_size(compared, f"the tensors of {shared!r}, such as {largest!r}, have together")
        self.rate_control: RateControl | None = None
        if isinstance(encoder, EncoderAssignment):
            self.rate_control = encoder.rate_control(self.encoders, self.specs)

    def _why_exactly(self, chosen: Encoder, spec: Spec) -> str | None:
        if not ops.is_floating(spec.dtype):
            return str(spec.dtype.name)
        if spec.name in self._exactly:
            return "asked for"
        if is_statistic(spec.name) and not self._asks_for(spec):
            return "statistics"
        if ops.num_elements(spec) < self.min_size:
            return f"fewer than {self.min_size} elements"
        return _LOSSLESS if chosen.capabilities.lossless else None

    def _asks_for(self, statistic: Spec) -> bool:
        return isinstance(self.encoder, EncoderAssignment) and self.encoder.encodes_statistic(statistic)

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

    def encode(
        self,
        xs: Sequence[Array],
        states: Sequence[State],
        round_num: Array,
        control: Control | None = None,
    ) -> tuple[Buffers, States]:
        """Compresses a model update.

        Args:
            xs: One tensor per spec.
            states: From `init_state` or this client's previous `encode`.
            round_num: int32 scalar.
            control: Of this round, where there is `rate_control`; default: as the encoders are configured.

        Returns:
            The wire buffers, a uint8 vector per tensor, and the next states.
        """
        buffers: dict[int, Array] = {}
        next_states: dict[int, State] = {}
        for encoder, places in self._shared():
            mine = [ops.ensure_shape(xs[place], self.specs[place].shape) for place in places]
            adjusted = encoder
            if self.rate_control is not None and control:
                adjusted = self.rate_control.adjust(encoder, control)
            before = [states[place] for place in places]
            if are_of_tensorflow([*mine, round_num]):
                encoded = adjusted.grouped_encode(mine, before, round_num)
                for place, (payload, next_state) in zip(places, encoded, strict=True):
                    spec = self.specs[place]
                    buffers[place] = framing.frame(encoder.to_wire(payload, spec), encoder.wire_id, spec)
                    next_states[place] = _like(states[place], next_state, encoder)
            else:
                specs, headers = ([each[place] for place in places] for each in (self.specs, self._headers))
                written = adjusted.encode_containers(mine, before, round_num, specs, headers)
                for place, (container, next_state) in zip(places, written, strict=True):
                    buffers[place] = np.frombuffer(container, np.uint8)
                    next_states[place] = _like(states[place], next_state, encoder)
        order = range(len(self.specs))
        return tuple(buffers[place] for place in order), tuple(next_states[place] for place in order)

    def _shared(self) -> list[tuple[Encoder, list[int]]]:
        """Each encoder with the places of its tensors; two that are equal are still two."""
        places: dict[int, list[int]] = {}
        for place, encoder in enumerate(self.encoders):
            places.setdefault(id(encoder), []).append(place)
        return [(self.encoders[mine[0]], mine) for mine in places.values()]

    def decode(self, buffers: Sequence[Array]) -> tuple[Array, ...]:
        """The dense tensors; hostile buffers raise `tf.errors.InvalidArgumentError`."""
        return tuple(
            encoder.decode(payload, spec)
            for encoder, spec, payload in zip(self.encoders, self.specs, self._payloads(buffers), strict=True)
        )

    def accumulate(
        self, accumulators: Sequence[Array], buffers: Sequence[Array], weight: Array
    ) -> tuple[Array, ...]:
        """``accumulators + weight * decode(buffers)``, sparse where the encoder is sparse.

        Args:
            accumulators: One dense tensor per spec; see `Encoder.accumulate`.
            buffers: From `encode`; hostile ones raise `tf.errors.InvalidArgumentError`.
            weight: Scalar; cast to each accumulator's dtype.
        """
        return tuple(
            encoder.accumulate(accumulator, payload, ops.astype(weight, accumulator.dtype), spec)
            for encoder, spec, accumulator, payload in zip(
                self.encoders, self.specs, accumulators, self._payloads(buffers), strict=True
            )
        )

    def _payloads(self, buffers: Sequence[Array]) -> list[Payload]:
        return [
            encoder.from_wire(framing.unframe(buffer, encoder.wire_id, spec), spec)
            for encoder, spec, buffer in zip(self.encoders, self.specs, buffers, strict=True)
        ]


def _require_size(specs: Sequence[Spec], subject: str) -> None:
    """Raises ConfigError for more elements than kernels count."""
    elements = sum(map(ops.num_elements, specs))
    if elements > wire.MAX_ELEMENTS:
        raise ConfigError(
            f"{subject} {elements:,} elements, more than the {wire.MAX_ELEMENTS:,} of an encoder (2^31 - 1); "
            "split large tensors, or give groups of tensors rules of their own"
        )


def _uncompressed(encoder: Encoder, spec: Spec) -> Encoder:
    """The encoder in place of ``encoder`` for a tensor that is sent exactly."""
    return encoder.around(_AS_IT_IS) if ops.is_floating(spec.dtype) else _AS_IT_IS


def _like(state: State, next_state: State, encoder: Encoder) -> State:
    """Puts ``next_state`` in the order of ``state``; refuses one of another structure."""
    if not isinstance(next_state, Mapping) or set(next_state) != set(state):
        raise ConfigError(
            f"encoder {encoder!r} got a state with {sorted(state)} and returned {sorted(next_state)}; "
            "encode must return a state of the same structure"
        )
    return {key: ops.ensure_shape(next_state[key], state[key].shape) for key in state}
