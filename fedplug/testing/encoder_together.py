"""Checks of an encoder that encodes the tensors of a model together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedplug.encoders.base import Encoder
from fedplug.ops.lowering import available, use_lowering
from fedplug.ops.types import Array, Spec
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_capabilities import CapabilityChecks
from fedplug.testing.encoder_subject import Case, Step, conserves
from fedplug.testing.suite import NotApplicable, after

__all__ = ["TogetherChecks"]

_ALONE = "test_a_tensor_encoded_together_with_no_other_is_encoded_as_alone"
_SAME = "test_numpy_arrays_and_tensors_give_the_same_bits"
_RECEIVED = "test_tensors_encoded_together_are_received_one_by_one"


class TogetherChecks(CapabilityChecks):
    """See `Encoder.grouped_encode`. They apply if it is overridden, and use every shape twice."""

    @after("test_equal_encoders_give_equal_bits")
    def test_a_tensor_encoded_together_with_no_other_is_encoded_as_alone(self) -> None:
        encoder = self._overriding()
        for spec in self._model():
            x, state = self.on.tensor("normal", spec), encoder.init_state(spec)
            number = self.on.round_num(0)
            want = encoder.encode(x, state, number)
            (got,) = encoder.grouped_encode([x], [state], number)
            for part, mine, alone in zip(("payload", "state"), got, want, strict=True):
                what = f"{part} of {tensors.name_of(spec)}, encoded together with no other tensor"
                expect.same_tensors(what, mine, alone)

    @after(_ALONE, "test_the_state_keeps_its_structure_shapes_and_dtypes", "test_sent_values_are_received")
    def test_tensors_encoded_together_are_received_one_by_one(self) -> None:
        encoder = self._overriding()
        for step in self._steps(encoder, self._model(), rounds=2):
            spec, what = step.case.spec, step.case.what
            before, now = (
                {key: (value.shape, value.dtype) for key, value in state.items()}
                for state in (step.state, step.next_state)
            )
            expect.that(now == before, f"state of {what}: from {before} to {now}")
            received = encoder.decode(encoder.from_wire(encoder.to_wire(step.payload, spec), spec), spec)
            expect.same_bits(
                f"{what}, sent and decoded by itself", received, encoder.decode(step.payload, spec)
            )
            expect.that(
                received.shape == spec.shape and received.dtype == spec.dtype,
                f"{what} is decoded as {tensors.name_of(received)}",
            )

    @after(_RECEIVED, "test_payload_and_residual_add_up")
    def test_payloads_and_residuals_of_tensors_encoded_together_add_up(self) -> None:
        encoder = self._overriding()
        steps = self._steps(encoder, self._model(), rounds=2)
        keeping = [step for step in steps if conserves(step.state)]
        if not keeping:
            raise NotApplicable("it keeps no residual without momentum")
        for step in keeping:
            self.expect_conserved(encoder, step)

    @after(_RECEIVED, _SAME, "test_a_graph_equals_eager_execution")
    def test_tensors_are_encoded_together_alike_on_all_arrays_and_in_graphs(self) -> None:
        self._overriding()
        first, *others = self.executions()
        wanted = self._encoded(self.make_encoder())
        for self.on in others:
            got = self._encoded(self.make_encoder())
            expect.same_tensors(f"tensors encoded together on {self.on}, against {first}", got, wanted)
        self.require("tensorflow")
        import tensorflow as tf

        lowerings = ["fused"] if available() else []
        if not self.make_encoder().capabilities.needs_op_library:
            lowerings.append("reference")
        for lowering in lowerings:
            with use_lowering(lowering):
                graph = tf.function(lambda: self._encoded(self.make_encoder()), autograph=False)
                traced = graph.get_concrete_function()
            expect.same_tensors(f"tensors encoded together in a graph, {lowering}", traced(), wanted)

    def _overriding(self) -> Encoder:
        encoder = self.make_encoder()
        if type(encoder).grouped_encode is Encoder.grouped_encode:
            raise NotApplicable("it encodes every tensor of a model by itself")
        return encoder

    def _model(self) -> list[Spec]:
        return 2 * [self.on.spec(shape, self.tried_dtypes()[0]) for shape in self.shapes]

    def _steps(self, encoder: Encoder, specs: list[Spec], rounds: int) -> list[Step]:
        """Encodes the first rounds of one client, tensor by tensor."""
        states = [encoder.init_state(spec) for spec in specs]
        factors = np.array([1, 4, 16], tensors.numpy_dtype(specs[0]))
        steps: list[Step] = []
        for number in range(rounds):
            cases = [
                Case(
                    # Some are larger than others, or it would make no difference to look at all of them.
                    self.on.array(tensors.tensor("normal", spec, 100 * number + place) * factors[place % 3]),
                    spec,
                    f"{tensors.name_of(spec)}, tensor {place} of {len(specs)} in round {number}",
                )
                for place, spec in enumerate(specs)
            ]
            encoded = encoder.grouped_encode([case.x for case in cases], states, self.on.round_num(number))
            expect.that(
                len(encoded) == len(specs),
                f"grouped_encode() returns {len(encoded)} payloads with states for {len(specs)} tensors",
            )
            for case, state, (payload, next_state) in zip(cases, states, encoded, strict=True):
                steps.append(Step(case, state, payload, next_state))
            states = [next_state for _, next_state in encoded]
        return steps

    def _encoded(self, encoder: Encoder) -> Mapping[str, Array]:
        """Returns all results of a first round, to compare two ways to run it."""
        few = self._model()[: max(2, len(self.shapes))]  # a graph of all takes long to trace
        return {
            f"{what} {key!r} of {step.case.what}": value
            for step in self._steps(encoder, few, rounds=1)
            for what, values in (("payload", step.payload), ("state", step.next_state))
            for key, value in values.items()
        }
