"""An encoder for the tensors of one model: `fedplug.codecs` and the processes of `fedplug.tff` use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders import containers
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import Control, EncoderAssignment, RateControl
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.containers import Plan
from fedplug.encoders.model.statistics import is_statistic
from fedplug.encoders.pipeline.kernel_plan import plan_of
from fedplug.encoders.pipeline.pipeline import as_encoder
from fedplug.encoders.quantizers import Identity
from fedplug.encoders.standalone.ef21 import EF21
from fedplug.errors import CapabilityError, ConfigError, nearest
from fedplug.ops.types import Array, ArraySpec, Scalar, Spec
from fedplug.registry.component import plain
from fedplug.registry.specs import Capabilities

__all__ = ["DEFAULT_MIN_SIZE", "ModelEncoder"]

DEFAULT_MIN_SIZE = 64

_AS_IT_IS = Identity()

_LOSSLESS = "lossless encoder"
"""The reason why a tensor is sent exactly by the encoder that is assigned to it."""

Buffers = Sequence[Any]  # bytes, or uint8 tensors
States = Sequence[State]


class ModelEncoder:
    """Encodes each tensor of a model. Sends statistics, small tensors and integers uncompressed.

    A model is a flat sequence of tensors, described by their specs. A client sends one buffer per tensor: the
    container of `fedplug.wire`, so that its length is the number of bytes on the wire. With the specs of
    NumPy arrays, buffers are bytes; with TensorFlow's specs they are uint8 vectors.

    Attributes:
        sent_exactly: The reason why each tensor is sent uncompressed, or None.
    """

    def __init__(
        self,
        encoder: object,
        specs: Sequence[Spec],
        *,
        min_size: int = DEFAULT_MIN_SIZE,
        exactly: Collection[str] = (),
    ) -> None:
        """Makes an encoder for models of these specs.

        Args:
            encoder: An assignment, or the encoder of every floating-point tensor of at least ``min_size``
                elements that is not a statistic. Anything that `as_encoder` reads is allowed.
            specs: The specs of the model's tensors, in order. Shapes fully known. Their names identify
                statistics, and rules match them.
            min_size: Minimum number of elements. Smaller tensors are sent uncompressed.
            exactly: Names of further tensors that are sent uncompressed.

        Raises:
            CapabilityError: An encoder does not execute on TensorFlow's tensors, and the specs are such.
            ConfigError: ``min_size`` is not a whole number of at least 0, or there are no tensors. Or a
                tensor has an unknown shape, a dtype that a payload cannot have, or 2^31 elements or more. Or
                ``exactly`` names no tensor, or the encoder does not fit the model.
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
        chosen: Encoder | EncoderAssignment = as_encoder(encoder)
        self.encoder = chosen
        self.min_size = min_size
        self.specs = tuple(specs)
        names = [spec.name or "" for spec in specs]
        for name in sorted(exactly):
            if name not in names:
                raise ConfigError(f"exactly names {name!r}, no tensor of the model; {nearest(name, names)}")
        self._exactly = exactly
        assigned = chosen.assign(specs) if isinstance(chosen, EncoderAssignment) else [chosen] * len(specs)
        self.sent_exactly = tuple(map(self._why_exactly, assigned, specs))
        self.encoders = tuple(
            chosen if reason in (None, _LOSSLESS) else _uncompressed(chosen, spec)
            for chosen, spec, reason in zip(assigned, specs, self.sent_exactly, strict=True)
        )
        self._plans = self._planned()
        on_arrays = all(isinstance(spec, ArraySpec) for spec in specs)
        for plan in self._plans:
            shared = plan.encoder
            if not on_arrays and "tensorflow" not in shared.capabilities.executes_on:
                raise CapabilityError(
                    f"{shared!r} executes on NumPy arrays only, so it cannot encode tensors in a graph; use "
                    "a codec (fedplug.codec), or another encoder, see `fedplug plugins list`"
                )
            if shared.capabilities.compares_tensors:
                largest = max(plan.specs, key=ops.num_elements).name
                _require_size(plan.specs, f"the tensors of {shared!r}, such as {largest!r}, have together")
        self.rate_control: RateControl | None = None
        if isinstance(chosen, EncoderAssignment):
            self.rate_control = chosen.rate_control(self.encoders, self.specs)

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
        """The capabilities of the encoder."""
        return self.encoder.capabilities

    def get_config(self) -> dict[str, object]:
        """Returns everything that decides the bytes: encoder, wire id of each tensor, minimum size."""
        return {
            "encoder": self.encoder.name,
            "config": self.encoder.get_config(),
            "wire_ids": [encoder.wire_id for encoder in self.encoders],
            "min_size": self.min_size,
        }

    def init_state(self) -> States:
        """Returns the states of a client in its first round, one per tensor."""
        return tuple(
            encoder.init_state(spec) for encoder, spec in zip(self.encoders, self.specs, strict=True)
        )

    def encode(
        self,
        xs: Sequence[Array],
        states: Sequence[State],
        round_num: Scalar,
        control: Control | None = None,
    ) -> tuple[Buffers, States]:
        """Encodes a model update.

        Args:
            xs: The tensors, one per spec.
            states: The states from `init_state` or from this client's previous `encode`.
            round_num: The round number. An int, or an int32 scalar.
            control: The control of this round if there is `rate_control`. Default: the encoders as they are
                configured.

        Returns:
            The wire buffers, one per tensor, and the next states.

        Raises:
            NonFiniteError: On NumPy arrays: an element, or its sum with the residual, is NaN or infinite.
        """
        buffers: list[Any] = [None] * len(self.specs)
        next_states: list[Any] = [None] * len(self.specs)
        for plan in self._plans:
            if self.rate_control is not None and control:
                plan = plan.adjusted(self.rate_control.adjust(plan.encoder, control))
            mine, before = list(map(xs.__getitem__, plan.places)), list(map(states.__getitem__, plan.places))
            framed, after = plan.encode(mine, before, round_num)
            for place, buffer, state, next_state in zip(plan.places, framed, before, after, strict=True):
                buffers[place], next_states[place] = buffer, _like(state, next_state, plan.encoder)
        return tuple(buffers), tuple(next_states)

    def _planned(self) -> list[Plan]:
        """Returns the plans of the tensors that share an encoder. Two equal encoders are still two."""
        found: dict[int, list[int]] = {}
        for place, encoder in enumerate(self.encoders):
            found.setdefault(id(encoder), []).append(place)
        return [
            plan_of(self.encoders[places[0]], [self.specs[place] for place in places], places)
            for places in found.values()
        ]

    def decode(self, buffers: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the dense tensors.

        Raises:
            PayloadError, tf.errors.InvalidArgumentError: On NumPy arrays, or when the graph runs: `encode`
                writes no such buffers.
        """
        return tuple(
            encoder.decode(payload, spec)
            for encoder, spec, payload in zip(self.encoders, self.specs, self._payloads(buffers), strict=True)
        )

    def accumulate(
        self, accumulators: Sequence[Array], buffers: Sequence[Array], weight: Array
    ) -> tuple[Array, ...]:
        """Returns ``accumulators + weight * decode(buffers)``. Sparse payloads cost only their entries.

        Args:
            accumulators: Dense tensors, one per spec. See `Encoder.accumulate`.
            buffers: The untrusted buffers. Errors as for `decode`.
            weight: A scalar, cast to each accumulator's dtype.
        """
        return tuple(
            encoder.accumulate(accumulator, payload, ops.astype(weight, accumulator.dtype), spec)
            for encoder, spec, accumulator, payload in zip(
                self.encoders, self.specs, accumulators, self._payloads(buffers), strict=True
            )
        )

    def _payloads(self, buffers: Sequence[Array]) -> list[Payload]:
        return [
            encoder.from_wire(containers.unframe(buffer, encoder.wire_id, spec), spec)
            for encoder, spec, buffer in zip(self.encoders, self.specs, buffers, strict=True)
        ]


def _require_size(specs: Sequence[Spec], subject: str) -> None:
    """Raises ConfigError for more elements than kernels can count."""
    elements = sum(map(ops.num_elements, specs))
    if elements > wire.MAX_ELEMENTS:
        raise ConfigError(
            f"{subject} {elements:,} elements, more than the {wire.MAX_ELEMENTS:,} of an encoder (2^31 - 1); "
            "split large tensors, or give groups of tensors rules of their own"
        )


def _uncompressed(encoder: Encoder, spec: Spec) -> Encoder:
    """Returns the encoder that sends this tensor exactly. An encoder of differences keeps its memory."""
    if isinstance(encoder, EF21) and ops.is_floating(spec.dtype):
        return encoder.around(_AS_IT_IS)
    return _AS_IT_IS


def _like(state: State, next_state: State, encoder: Encoder) -> State:
    """Returns ``next_state`` in the order of ``state``. Refuses a state of another structure."""
    if not state and not next_state and type(next_state) is dict:
        return next_state
    is_state = type(next_state) is dict or isinstance(next_state, Mapping)
    if not is_state or next_state.keys() != state.keys():
        raise ConfigError(
            f"encoder {encoder!r} got a state with {sorted(state)} and returned {sorted(next_state)}; "
            "encode must return a state of the same structure"
        )
    found = {}
    for key in state:
        array = next_state[key]
        fits = type(array) is np.ndarray and array.shape == state[key].shape
        found[key] = array if fits else ops.ensure_shape(array, state[key].shape)
    return found
