"""The basis of all checks of an encoder: the encoder, its test tensors, and a round trip."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.ops.lowering import available
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.testing import tensors
from fedplug.testing.execution import Execution
from fedplug.testing.executions import OnEachExecution

__all__ = ["Case", "EncoderSubject", "Step", "conserves", "round_trip"]

_MANY_ROUNDS = 24


class Case(NamedTuple):
    """A tensor to encode, and its description."""

    x: Array
    spec: Spec
    what: str


class Step(NamedTuple):
    """One call of `Encoder.encode` with its arguments."""

    case: Case
    state: State
    payload: Payload
    next_state: State


class EncoderSubject(OnEachExecution):
    """The encoder under test. Override attributes if the encoder's documentation justifies it."""

    shapes: ClassVar[tuple[tuple[int, ...], ...]] = tensors.SHAPES
    """All are tried with the first of the dtypes."""

    dtypes: ClassVar[Sequence[object] | None] = None
    """Names, such as "float32", or what has one. All are tried with a vector of 7 elements. None: those that
    the encoder declares."""

    @abc.abstractmethod
    def make_encoder(self) -> Encoder:
        """Returns a new encoder, always with the same configuration."""

    def component(self) -> Encoder:
        """See `ComponentSuite.component`."""
        return self.make_encoder()

    def unavailable(self) -> dict[str, str]:
        """Adds TensorFlow if the op library that the encoder needs there cannot be loaded."""
        found = super().unavailable()
        if self.make_encoder().capabilities.needs_op_library and find_spec("tensorflow") and not available():
            found.setdefault("tensorflow", "the compiled ops cannot be loaded here, see `fedplug doctor`")
        return found

    def tried_dtypes(self) -> tuple[str, ...]:
        """Returns the names of the tested dtypes."""
        if self.dtypes is not None:
            return tuple(map(tensors.dtype_name, self.dtypes))
        declared = self.make_encoder().capabilities.dtypes
        return tuple(dtype for dtype in tensors.DTYPES if dtype in declared)

    def specs(self) -> list[Spec]:
        """Returns the tested specs."""
        first, *others = self.tried_dtypes()
        by_shape = [self.on.spec(shape, first) for shape in self.shapes]
        return by_shape + [self.on.spec((7,), dtype) for dtype in others]

    def few_specs(self, largest: int | None = None) -> list[Spec]:
        """Four of the specs, from the smallest to the largest, for checks that take long.

        Args:
            largest: The maximum number of elements.
        """
        specs = sorted(self.specs(), key=ops.num_elements)
        specs = [spec for spec in specs if largest is None or ops.num_elements(spec) <= largest]
        chosen = {round(part * (len(specs) - 1) / 3) for part in range(4)}
        return [spec for position, spec in enumerate(specs) if position in chosen]

    def cases(self, seed: int = 0) -> Iterator[Case]:
        """Returns every kind of tensor for every spec, as new arrays that a check may change."""
        for spec in self.specs():
            for kind in tensors.KINDS if ops.num_elements(spec) else ("normal",):
                what = f"{tensors.name_of(spec)} ({kind})"
                yield Case(self.on.tensor(kind, spec, seed), spec, what)

    def first_steps(self) -> Iterator[Step]:
        """Encodes every case as in a client's first round."""
        encoder = self.make_encoder()
        for case in self.cases():
            yield self._step(encoder, case, encoder.init_state(case.spec), 0)

    def history(self, encoder: Encoder, spec: Spec, seed: int = 0, rounds: int = 3) -> Iterator[Step]:
        """Encodes the first rounds of one client, each with another tensor and the previous state."""
        state = encoder.init_state(spec)
        for number in range(rounds):
            x = self.on.tensor("normal", spec, seed=100 * seed + number)
            case = Case(x, spec, f"{tensors.name_of(spec)} in round {number}")
            step = self._step(encoder, case, state, number)
            yield step
            state = step.next_state

    def long_history(self, encoder: Encoder) -> list[Step]:
        """Encodes many rounds of the smallest non-empty tensor with a state."""
        several = [spec for spec in self.specs() if ops.num_elements(spec) > 1] or self.specs()
        kept = [spec for spec in several if encoder.init_state(spec)] or several
        smallest = min(kept, key=ops.num_elements)
        return list(self.history(encoder, smallest, rounds=_MANY_ROUNDS))

    def is_summed(self, value: Array) -> bool:
        """Returns whether a sum of payloads adds this tensor: floats, or int32 if there is a ring."""
        if self.make_encoder().capabilities.ring_bits is None:
            return ops.is_floating(value.dtype)
        return tensors.dtype_name(value.dtype) == "int32"

    def summed(self, values: Sequence[Array]) -> Array:
        """Returns the sum of one tensor of several payloads, modulo the ring. The first if none is added."""
        if not self.is_summed(values[0]):
            return values[0]
        bits = self.make_encoder().capabilities.ring_bits
        if bits is None:
            return ops.add_n(values)
        total = np.sum([self.on.numpy(value).astype(np.int64) for value in values], axis=0)
        return self.on.array((total % 2**bits).astype(np.int32))

    def _step(self, encoder: Encoder, case: Case, state: State, number: int) -> Step:
        self.trying = case.what
        return Step(case, state, *encoder.encode(case.x, state, self.on.round_num(number)))


def conserves(state: State) -> bool:
    """Returns whether a state promises ``decoded + residual' = x + residual``; with momentum it does not."""
    return "residual" in state and "momentum" not in state


def round_trip(
    on: Execution, encoder: Encoder, x: Array, state: State, round_num: Scalar, spec: Spec
) -> Mapping[str, Array]:
    """Returns all results of an encoder on the client and on the server, to compare two ways to run it."""
    payload, next_state = encoder.encode(x, state, round_num)
    wire = encoder.to_wire(payload, spec)
    received = encoder.from_wire(wire, spec)
    accumulator, weight = on.ones(spec), on.scalar(3, spec)
    return {
        **{f"payload {key!r}": value for key, value in payload.items()},
        **{f"state {key!r}": value for key, value in next_state.items()},
        "bytes on the wire": wire,
        "decoded tensor": encoder.decode(received, spec),
        "accumulated tensor": encoder.accumulate(accumulator, received, weight, spec),
    }
