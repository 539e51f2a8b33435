"""Checks of declarations for other components: seeds, secure sums, sensitivity, error bounds, dtypes."""

from __future__ import annotations

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload
from fedplug.ops.types import Array, Spec
from fedplug.schedules.base import MAX_ROUNDS
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.executions import on_each_execution
from fedplug.testing.suite import after

__all__ = ["DeclarationChecks"]

_ROUNDS = range(MAX_ROUNDS + 1, MAX_ROUNDS + 9)
"""Rounds in which every schedule has settled, so that only random numbers tell them apart."""


class DeclarationChecks(EncoderSubject):
    """See `fedplug.registry.specs.Capabilities`. Each check applies where its capability is declared."""

    @after("test_equal_encoders_give_equal_bits", "test_a_round_done_again_later_has_the_same_result")
    @on_each_execution
    def test_it_needs_a_seed_exactly_if_the_round_makes_a_difference(self) -> None:
        encoder = self.make_encoder()
        declared = encoder.capabilities.needs_seed
        found = any(self._differs_by_round(encoder, spec) for spec in self.few_specs())
        how = "depends" if found else "does not depend"
        expect.that(
            found == declared, f"needs_seed is {declared}, and what encode returns {how} on the round number"
        )

    @on_each_execution
    def test_safe_for_secure_aggregation_means_that_only_sums_tell_of_the_data(self) -> None:
        self.declaring("secure_aggregation_safe")
        seen: dict[str, tuple[str, dict[str, tuple[object, ...]]]] = {}
        for step in self.first_steps():
            name = tensors.name_of(step.case.spec)
            form = {key: self._in_the_clear(value) for key, value in step.payload.items()}
            first, wanted = seen.setdefault(name, (step.case.what, form))
            expect.that(
                form == wanted,
                f"shapes, or tensors that cannot be hidden in a sum, differ between "
                f"the payloads of {first} and {step.case.what}",
            )

    @on_each_execution
    def test_masked_integers_are_numbers_of_the_ring(self) -> None:
        encoder = self.declaring("ring_bits")
        bits = encoder.capabilities.ring_bits
        assert bits is not None
        for step in self.first_steps():
            masked = [self.on.numpy(x) for x in step.payload.values() if self.is_summed(x)]
            expect.that(masked, f"ring_bits is {bits}, and {step.case.what} has no int32 tensor")
            lowest = min(int(x.min(initial=0)) for x in masked)
            highest = max(int(x.max(initial=0)) for x in masked)
            expect.that(
                lowest >= 0 and highest < 2**bits,
                f"ring_bits is {bits}, and {step.case.what} has numbers {lowest} to {highest}",
            )

    @after("test_commuting_with_a_sum_means_that_payloads_may_be_summed")
    @on_each_execution
    def test_a_sum_of_the_most_summands_does_not_wrap(self) -> None:
        encoder = self.declaring("most_summands")
        most = encoder.capabilities.most_summands
        assert most is not None
        for spec in self.specs():
            for sign in (-1, 1):
                x = self.on.array(np.full(tuple(spec.shape), sign * 1e6, tensors.numpy_dtype(spec)))
                payload, _ = encoder.encode(x, encoder.init_state(spec), self.on.round_num(0))
                one = self.on.numpy(encoder.decode(payload, spec)).astype(np.float64)
                total = {key: self.summed([value] * most) for key, value in payload.items()}
                got = encoder.decode(total, spec)
                unit = expect.eps(one.dtype) * most * float(np.abs(one).max(initial=0))
                what = f"decode of the sum of {most} payloads of {tensors.name_of(spec)} of {sign * 1e6:g}"
                expect.close(what, got, most * one, 16 * unit)

    @on_each_execution
    def test_bounded_sensitivity_means_that_no_norm_grows(self) -> None:
        encoder = self.declaring("bounded_sensitivity")
        steps = [*self.first_steps(), *(s for spec in self.specs() for s in self.history(encoder, spec))]
        for step in steps:
            decoded = encoder.decode(step.payload, step.case.spec)
            norm, given = self._norm(decoded), self._norm(step.case.x)
            rounding = 8 * expect.eps(tensors.numpy_dtype(step.case.spec)) * given
            expect.that(
                norm <= given + rounding,
                f"{step.case.what} has norm {given:.6g}, and what is decoded of it {norm:.6g}",
            )

    @on_each_execution
    def test_sending_every_entry_means_that_equal_magnitudes_keep_their_signs(self) -> None:
        encoder = self.declaring("sends_every_entry")
        for spec in self.specs():
            normal = tensors.tensor("normal", spec)
            x = np.where(normal.astype(np.float64) < 0, -1, 1).astype(normal.dtype)
            payload, _ = encoder.encode(self.on.array(x), encoder.init_state(spec), self.on.round_num(0))
            decoded = self.on.numpy(encoder.decode(payload, spec))
            lost = np.count_nonzero(np.sign(decoded) != x)
            expect.that(
                not lost,
                f"{lost} of {x.size} entries of {tensors.name_of(spec)}, all 1 or -1, are decoded as "
                "zero or with the other sign",
            )

    @on_each_execution
    def test_no_entry_is_further_off_than_its_error_bound(self) -> None:
        encoder = self.declaring("relative_error_bound")
        bound = encoder.capabilities.relative_error_bound
        assert bound is not None
        for step in self.first_steps():
            # Halves, as the range of huge numbers may be beyond the largest one.
            x = self.on.numpy(step.case.x).astype(np.float64) / 2
            decoded = self.on.numpy(encoder.decode(step.payload, step.case.spec)).astype(np.float64) / 2
            error = float(np.abs(decoded - x).max(initial=0))
            allowed = bound * float(np.ptp(x)) if x.size else 0.0
            rounding = 2 * np.finfo(np.float64).eps * allowed
            # Denormal numbers may become zeros in TensorFlow's own arithmetic.
            flushed = expect.tiny(tensors.numpy_dtype(step.case.spec))
            expect.that(
                error <= allowed + rounding + flushed,
                f"an entry of {step.case.what} is off by {2 * error:.6g}, and relative_error_bound="
                f"{bound:g} allows {2 * allowed:.6g}",
            )

    @on_each_execution
    def test_payloads_of_a_fixed_size_have_one_size_for_every_content_and_round(self) -> None:
        encoder = self.declaring("fixed_size")
        steps = [*self.first_steps(), *(s for spec in self.specs() for s in self.history(encoder, spec))]
        seen: dict[str, tuple[str, int]] = {}
        for step in steps:
            found = int(ops.size(encoder.to_wire(step.payload, step.case.spec)))
            what, size = seen.setdefault(tensors.name_of(step.case.spec), (step.case.what, found))
            expect.that(
                found == size,
                f"fixed_size is True; {step.case.what} takes {found} bytes, and {what} {size}",
            )

    def _differs_by_round(self, encoder: Encoder, spec: Spec) -> bool:
        x, on = self.on.tensor("normal", spec), self.on
        payloads = (encoder.encode(x, encoder.init_state(spec), on.round_num(r))[0] for r in _ROUNDS)
        return len({self._payload_bits(payload) for payload in payloads}) > 1

    def _payload_bits(self, payload: Payload) -> tuple[object, ...]:
        return tuple((key, *self._form_and_bits(payload[key])) for key in sorted(payload))

    def _in_the_clear(self, value: Array) -> tuple[object, ...]:
        """Returns the parts of an array that stay visible when the clients' payloads are summed securely."""
        form, bits = self._form_and_bits(value)
        return (form,) if self.is_summed(value) else (form, bits)

    def _form_and_bits(self, value: Array) -> tuple[object, bytes]:
        return (value.dtype.name, tuple(value.shape)), self.on.numpy(value).tobytes()

    def _norm(self, x: Array) -> float:
        with np.errstate(over="ignore"):  # of numbers near the largest it is infinite
            return float(np.linalg.norm(self.on.numpy(x).astype(np.float64).reshape(-1)))
