"""Checks that an encoder computes the same on NumPy arrays as on TensorFlow's tensors and CUDA arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import fedplug.codecs as codecs
import fedplug.ops as ops
from fedplug.encoders import containers
from fedplug.errors import NonFiniteError
from fedplug.ops.donation import donate_residuals
from fedplug.ops.types import Array
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject, round_trip
from fedplug.testing.suite import NotApplicable, after

__all__ = ["ExecutionChecks"]

_DETERMINISM = "test_equal_encoders_give_equal_bits"
_ARGUMENTS = "test_its_arguments_are_not_changed"
_STATE = "test_the_state_keeps_its_structure_shapes_and_dtypes"
_ROUND_TRIP = "test_sent_values_are_received"
_WIRE_ID = "test_its_wire_id_names_a_frozen_layout"
_KINDS = ("normal", "ties", "spike")
_SPARSE = "sparse/1"  # of every pipeline with a sparsifier


class ExecutionChecks(EncoderSubject):
    """They apply if the encoder executes on "numpy"."""

    @after(_DETERMINISM, _STATE, _ROUND_TRIP, _WIRE_ID)
    def test_numpy_arrays_and_tensors_give_the_same_bits(self) -> None:
        others = self.other_executions()
        wanted = self._rounds()
        for other in others:
            self.on = other
            for what, got in self._rounds().items():
                expect.same_tensors(f"{what} on {other}, against NumPy arrays", got, wanted[what])

    @after(_DETERMINISM, _ARGUMENTS)
    def test_donated_residuals_give_the_same_bits(self) -> None:
        """Donates with `fedplug.ops.donation`: only the state and the accumulator may be overwritten."""
        self.require("numpy")
        encoder = self.make_encoder()
        for spec in self.few_specs():
            state: Mapping[str, Array] = _copied(encoder.init_state(spec))
            for number, step in enumerate(self.history(encoder, spec)):
                x, what = np.array(step.case.x), f"{step.case.what}, whose residual is donated"
                accumulator, weight = self.on.ones(spec), self.on.scalar(3, spec)
                total = encoder.accumulate(accumulator, step.payload, weight, spec)
                with donate_residuals():
                    payload, state = encoder.encode(x, state, number)
                    got = encoder.accumulate(accumulator, payload, weight, spec)
                expect.same_bits(f"the tensor after encoding {what}", x, step.case.x)
                expect.same_tensors(f"payload of {what}", payload, step.payload)
                expect.same_tensors(f"state of {what}", state, step.next_state)
                expect.same_bits(f"{what}, accumulated where that was donated", got, total)

    @after(_ROUND_TRIP, _WIRE_ID)
    def test_it_is_read_without_its_configuration(self) -> None:
        """Uses `fedplug.decode`, which finds the decoder by its wire id. See `Encoder.from_payload`."""
        self.require("numpy")
        encoder = self.make_encoder()
        declared = {entry.spec.wire_id for entry in catalog().entries if isinstance(entry.spec, EncoderSpec)}
        for part in encoder.wire_id.split("+"):
            if part not in {_SPARSE, *declared}:
                raise NotApplicable(f"no plugin declares what reads {part!r}")
        for step in self.first_steps():
            spec = step.case.spec
            payload = containers.frame(encoder.to_wire(step.payload, spec), encoder.wire_id, spec)
            want = encoder.decode(step.payload, spec)
            expect.same_bits(f"{step.case.what}, read by fedplug.decode", codecs.decode(payload), want)

    @after(_ARGUMENTS, _STATE)
    def test_no_array_is_sent_that_is_not_finite(self) -> None:
        """Uses `fedplug.codec`, which raises NonFiniteError. The state does not change, even if donated."""
        self.require("numpy")
        codec = codecs.Codec(self.make_encoder())
        for spec in self.few_specs():
            if not ops.num_elements(spec):
                continue
            x = np.array(self.on.tensor("normal", spec))
            _, state = codec.encode(x)
            before = _copied(state)
            for number in (np.nan, np.inf):
                x.reshape(-1)[-1] = number
                what = f"{tensors.name_of(spec)} with {number}"
                try:
                    codec.encode(x, state, 1, in_place=True)
                except NonFiniteError:
                    expect.same_tensors(f"the state after refusing {what}", state, before)
                else:
                    expect.that(False, f"{what} was encoded; refuse it, see fedplug.ops.require_finite")

    def _rounds(self) -> dict[str, Mapping[str, Array]]:
        """Returns all results of the first rounds, to compare two executions."""
        found: dict[str, Mapping[str, Array]] = {}
        for spec in self.few_specs():
            encoder = self.make_encoder()
            state: Mapping[str, Array] = encoder.init_state(spec)
            for number, kind in enumerate(_KINDS):
                x, round_num = self.on.tensor(kind, spec), self.on.round_num(number)
                computed = round_trip(self.on, encoder, x, state, round_num, spec)
                found[f"round {number} of {tensors.name_of(spec)} ({kind})"] = computed
                state = {key: computed[f"state {key!r}"] for key in state}
        return found


def _copied(state: Mapping[str, Array]) -> dict[str, Array]:
    return {key: np.array(value) for key, value in state.items()}
