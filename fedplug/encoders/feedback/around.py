"""An encoder around another one: payloads are those of the inner encoder, and the state is its own."""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.optional import BodyParts, Measured, body_parts
from fedplug.encoders.pipeline.as_encoder import as_tensor_encoder
from fedplug.encoders.rate_control import Adjustable, Adjustment, adjustment_of
from fedplug.ops.types import Array, Spec
from fedplug.registry.config import component_config

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Around"]


class Around(Encoder, Measured, Adjustable):
    """Sends a payload of the inner encoder, in its wire form and under its wire id."""

    def __init__(self, encoder: Encoder | str | Mapping[str, Any]) -> None:
        """Takes an encoder of one tensor, as `as_tensor_encoder` reads it."""
        self._encoder = as_tensor_encoder(encoder, f"the encoder in {self.name}")

    @property
    def wire_id(self) -> str:  # type: ignore[override]  # a constant of most others
        """The wire id of the inner encoder."""
        return self._encoder.wire_id

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments beside the encoder, without those at their default."""

    def get_config(self) -> dict[str, Any]:
        return {"encoder": component_config(self._encoder), **self.arguments()}

    def around(self, encoder: Encoder) -> Self:
        """Returns a copy around another encoder."""
        other = copy.copy(self)
        other._encoder = encoder
        return other

    def encode(self, x: Array, state: State, round_num: Array) -> tuple[Payload, State]:
        """Encodes one tensor by `grouped_encode`."""
        return self.grouped_encode([x], [state], round_num)[0]

    def decode(self, payload: Payload, spec: Spec) -> Array:
        return self._encoder.decode(payload, spec)

    def accumulate(self, accumulator: Array, payload: Payload, weight: Array, spec: Spec) -> Array:
        return self._encoder.accumulate(accumulator, payload, weight, spec)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        return self._encoder.to_wire(payload, spec)

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        return self._encoder.from_wire(body, spec)

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        return body_parts(self._encoder, body, spec)

    def adjustment(self) -> Adjustment | None:
        """Returns how the inner encoder is adjusted."""
        inner = adjustment_of(self._encoder)
        return None if inner is None else _AdjustmentAround(self, inner)

    def __repr__(self) -> str:
        arguments = [
            repr(str(self._encoder)),
            *(f"{key}={value!r}" for key, value in self.arguments().items()),
        ]
        return f"{self.name}({', '.join(arguments)})"


@dataclass(frozen=True)
class _AdjustmentAround:
    """The adjustment of the inner encoder."""

    outer: Around
    inner: Adjustment

    @property
    def encoder(self) -> Encoder:
        return self.outer.around(self.inner.encoder)

    @property
    def adjusts(self) -> Literal["entries", "bits"]:
        return self.inner.adjusts

    def at_rate(self, rate: Array) -> Encoder:
        return self.outer.around(self.inner.at_rate(rate))

    def min_bytes(self, spec: Spec) -> int:
        return self.inner.min_bytes(spec)
