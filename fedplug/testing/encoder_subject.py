"""What every check of an encoder works with: the encoder, the tensors it is tried with, one whole round trip.

Must not know what is checked.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from fedplug.encoders import framing
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.testing import tensors
from fedplug.testing.suite import Suite

__all__ = ["Case", "EncoderSubject", "Step", "round_trip"]

_MANY_ROUNDS = 24


class Case(NamedTuple):
    """A tensor to encode, and how to speak of it."""

    x: tf.Tensor
    spec: tf.TensorSpec
    what: str


class Step(NamedTuple):
    """One call of `Encoder.encode`, with what went in."""

    case: Case
    state: State
    payload: Payload
    next_state: State


class EncoderSubject(Suite, abc.ABC):
    """The encoder under test. Override the attributes where the encoder's documentation says so."""

    shapes: ClassVar[tuple[tuple[int, ...], ...]] = tensors.SHAPES
    """All are tried with the first of the dtypes."""

    dtypes: ClassVar[tuple[tf.DType, ...] | None] = None
    """All are tried with a vector of 7 elements; None: those that the encoder declares."""

    @abc.abstractmethod
    def make_encoder(self) -> Encoder:
        """A new encoder, every time with the same configuration."""

    def tried_dtypes(self) -> tuple[tf.DType, ...]:
        """The dtypes that are tried."""
        if self.dtypes is not None:
            return self.dtypes
        declared = self.make_encoder().capabilities.dtypes
        return tuple(dtype for dtype in tensors.DTYPES if dtype.name in declared)

    def specs(self) -> list[tf.TensorSpec]:
        """The specs that are tried."""
        first, *others = self.tried_dtypes()
        by_shape = [tf.TensorSpec(shape, first) for shape in self.shapes]
        return by_shape + [tf.TensorSpec([7], dtype) for dtype in others]

    def few_specs(self, largest: int | None = None) -> list[tf.TensorSpec]:
        """Four of the specs, from the smallest to the largest, for checks that take long.

        Args:
            largest: Leave out those of more elements.
        """
        specs = sorted(self.specs(), key=lambda spec: spec.shape.num_elements())
        specs = [spec for spec in specs if largest is None or spec.shape.num_elements() <= largest]
        chosen = {round(part * (len(specs) - 1) / 3) for part in range(4)}
        return [spec for position, spec in enumerate(specs) if position in chosen]

    def cases(self, seed: int = 0) -> Iterator[Case]:
        """Every kind of tensor for every spec; made anew, so that a check owns them."""
        for spec in self.specs():
            for kind in tensors.KINDS if spec.shape.num_elements() else ("normal",):
                what = f"{tensors.name_of(spec)} ({kind})"
                yield Case(tensors.tensor(kind, spec, seed), spec, what)

    def first_steps(self) -> Iterator[Step]:
        """Encodes every case as a client does that takes part for the first time."""
        encoder = self.make_encoder()
        for case in self.cases():
            yield _step(encoder, case, encoder.init_state(case.spec), 0)

    def history(
        self, encoder: Encoder, spec: tf.TensorSpec, seed: int = 0, rounds: int = 3
    ) -> Iterator[Step]:
        """What one client encodes in its first rounds, each with another tensor and its previous state."""
        state = encoder.init_state(spec)
        for number in range(rounds):
            x = tensors.tensor("normal", spec, seed=100 * seed + number)
            step = _step(encoder, Case(x, spec, f"{tensors.name_of(spec)} in round {number}"), state, number)
            yield step
            state = step.next_state

    def long_history(self, encoder: Encoder) -> list[Step]:
        """The same over many rounds, of the smallest tensor of some elements for which there is state."""
        several = [spec for spec in self.specs() if spec.shape.num_elements() > 1] or self.specs()
        kept = [spec for spec in several if encoder.init_state(spec)] or several
        smallest = min(kept, key=lambda spec: spec.shape.num_elements())
        return list(self.history(encoder, smallest, rounds=_MANY_ROUNDS))


def _step(encoder: Encoder, case: Case, state: State, number: int) -> Step:
    return Step(case, state, *encoder.encode(case.x, state, tf.constant(number)))


def round_trip(
    encoder: Encoder, x: tf.Tensor, state: State, round_num: tf.Tensor, spec: tf.TensorSpec
) -> Mapping[str, Any]:
    """Everything an encoder computes on the way to the server and there, for comparing two ways to run it."""
    payload, next_state = encoder.encode(x, state, round_num)
    wire = encoder.to_wire(payload, spec)
    buffer = framing.frame(wire, encoder.wire_id, spec)
    received = encoder.from_wire(framing.unframe(buffer, encoder.wire_id, spec), spec)
    accumulator, weight = tf.ones(spec.shape, spec.dtype), tf.constant(3, spec.dtype)
    return {
        **{f"payload {key!r}": value for key, value in payload.items()},
        **{f"state {key!r}": value for key, value in next_state.items()},
        "bytes on the wire": wire,
        "decoded tensor": encoder.decode(received, spec),
        "accumulated tensor": encoder.accumulate(accumulator, received, weight, spec),
    }
