"""The suite for assignments. `EncoderSuite` tests the promises of the assigned encoders."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder, State
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.ops.types import Array, ArraySpec, Spec
from fedplug.testing import expect, tensors
from fedplug.testing.executions import OnEachExecution, on_each_execution
from fedplug.testing.suite import NotApplicable, after

__all__ = ["AssignmentSuite"]

_ASSIGNS = "test_it_assigns_an_encoder_to_every_tensor"
_EQUAL = "test_equal_ones_assign_equal_encoders"
_RECEIVED = "test_every_tensor_of_a_model_is_received"


class _Sent(NamedTuple):
    """One round of one client."""

    model: ModelEncoder
    xs: Sequence[Array]
    buffers: Sequence[Array]
    states: Sequence[State]


class AssignmentSuite(OnEachExecution):
    """Checks the promises of `fedplug.encoders.assignment.EncoderAssignment`.

    An author writes, in a test module::

        class TestByDepth(fedplug.testing.AssignmentSuite):
            def make_assignment(self):
                return ByDepth(0.1)

    and overrides `specs` if it supports only certain names, shapes or dtypes.
    """

    specs: ClassVar[Sequence[Spec]] = (
        ArraySpec((40, 5), np.dtype("float32"), name="dense/kernel"),
        ArraySpec((70,), np.dtype("float32"), name="dense/bias"),
        ArraySpec((5, 13), np.dtype("bfloat16"), name="dense_1/kernel"),
        ArraySpec((), np.dtype("float32"), name="dense_1/bias"),
    )
    """Specs of the model that the suite encodes; also `tf.TensorSpec`."""

    @abc.abstractmethod
    def make_assignment(self) -> EncoderAssignment:
        """Returns a new assignment, always with the same configuration."""

    def component(self) -> EncoderAssignment:
        """See `ComponentSuite.component`."""
        return self.make_assignment()

    def tried_specs(self) -> list[Spec]:
        """Returns `specs` for the current kind of arrays."""
        return [self.on.spec(tuple(spec.shape), spec.dtype.name, spec.name) for spec in self.specs]

    @on_each_execution
    def test_it_assigns_an_encoder_to_every_tensor(self) -> None:
        assigned = self.make_assignment().assign(self.tried_specs())
        expect.that(
            len(assigned) == len(self.specs),
            f"assign() gives {len(assigned)} encoders for {len(self.specs)} tensors",
        )
        for encoder, spec in zip(assigned, self.specs, strict=True):
            expect.that(isinstance(encoder, Encoder), f"{spec.name!r} gets {encoder!r}, which is no encoder")

    @after(_ASSIGNS)
    @on_each_execution
    def test_equal_ones_assign_equal_encoders(self) -> None:
        one, other = (self.make_assignment().assign(self.tried_specs()) for _ in range(2))
        expect.that(one == other, f"the same model gets {one!r} the first time and {other!r} the second")

    @after(_ASSIGNS)
    @on_each_execution
    def test_every_tensor_of_a_model_is_received(self) -> None:
        for sent in self._rounds():
            for spec, decoded in zip(self.tried_specs(), sent.model.decode(sent.buffers), strict=True):
                expect.that(
                    decoded.dtype == spec.dtype and decoded.shape == spec.shape,
                    f"{spec.name!r} is decoded as {tensors.name_of(decoded)}",
                )
                finite = np.isfinite(self.on.numpy(decoded).astype(np.float64)).all()
                expect.that(finite, f"{spec.name!r} is decoded with a NaN or an infinity")

    @after(_ASSIGNS, _EQUAL, _RECEIVED)
    @on_each_execution
    def test_equal_ones_send_equal_bits(self) -> None:
        for one, other in zip(self._rounds(), self._rounds(), strict=True):
            for place, spec in enumerate(self.specs):
                what = f"{spec.name!r}, second time"
                expect.same_bits(f"bytes on the wire of {what}", other.buffers[place], one.buffers[place])
                expect.same_tensors(f"state of {what}", other.states[place], one.states[place])

    @after(_ASSIGNS)
    @on_each_execution
    def test_its_encoders_keep_no_state_unless_it_declares_that_it_needs_some(self) -> None:
        if self.make_assignment().capabilities.needs_client_state:
            raise NotApplicable("it declares needs_client_state")
        specs = self.tried_specs()
        for encoder, spec in zip(self.make_assignment().assign(specs), specs, strict=True):
            state = encoder.init_state(spec)
            expect.that(not state, f"needs_client_state is False, and {spec.name!r} has {sorted(state)}")

    @after(_ASSIGNS, _RECEIVED)
    @on_each_execution
    def test_lossless_encoders_are_exact(self) -> None:
        self.declaring("lossless")
        for sent in self._rounds():
            decoded = sent.model.decode(sent.buffers)
            for spec, got, want in zip(self.specs, decoded, sent.xs, strict=True):
                expect.same_bits(f"{spec.name!r}, decoded", got, want)

    def _rounds(self, rounds: int = 2) -> Iterator[_Sent]:
        """Returns the payloads of one client in its first rounds."""
        model = ModelEncoder(self.make_assignment(), self.tried_specs(), min_size=0)
        states = model.init_state()
        for number in range(rounds):
            xs = [
                self.on.tensor("normal", spec, seed=100 * number + place)
                for place, spec in enumerate(model.specs)
            ]
            buffers, states = model.encode(xs, states, self.on.round_num(number))
            yield _Sent(model, xs, buffers, states)
