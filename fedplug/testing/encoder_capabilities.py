"""Checks of the promises that an encoder declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.schedules.base import MAX_ROUNDS
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject, Step, conserves
from fedplug.testing.suite import NotApplicable, after

__all__ = ["CapabilityChecks"]

_STANDARD_ERRORS = 5.0
_DIRECTIONS = 8
_PARTS = (48, 256, 512, 1024, 1031)
"""Ends of the parts of the tensor whose bias is measured: within blocks, whole blocks, and a rest."""
_PATIENCE = 40
_Doubles = NDArray[np.float64]
_ROUNDS = range(MAX_ROUNDS + 1, MAX_ROUNDS + 9)
"""Rounds in which every schedule has settled, so that only random numbers tell them apart."""


class CapabilityChecks(EncoderSubject):
    """See `fedplug.registry.specs.Capabilities`. Each check applies where its capability is declared."""

    conservation_tolerance: ClassVar[float] = 4.0
    """The tolerance in units in the last place of the largest magnitude, in the residual's dtype; 0 where the
    docstring says bit for bit."""

    decay: ClassVar[float] = 1.0
    """The share of a residual that the encoder adds to the next tensor, rounded to the residual's dtype."""

    linear_tolerance: ClassVar[float] = 16.0
    """The tolerance in units in the last place of the largest magnitude."""

    trials: ClassVar[int] = 2000
    """Rounds over which the test of unbiasedness averages."""

    def test_it_has_state_exactly_if_it_declares_that_it_needs_some(self) -> None:
        encoder = self.make_encoder()
        if encoder.capabilities.needs_client_state:
            message = "needs_client_state is True, and init_state has nothing for any of the tensors tried"
            expect.that(any(encoder.init_state(spec) for spec in self.specs()), message)
            return
        for spec in self.specs():
            state = encoder.init_state(spec)
            message = f"needs_client_state is False, and init_state({tensors.name_of(spec)}) has"
            expect.that(not state, f"{message} {sorted(state)}")

    @after("test_it_has_state_exactly_if_it_declares_that_it_needs_some")
    def test_its_state_is_written_and_read(self) -> None:
        encoder = self.declaring("needs_client_state")
        spec = max(
            (spec for spec in self.specs() if encoder.init_state(spec)),
            key=ops.num_elements,
        )
        first, *later = self.history(encoder, spec, rounds=8)
        written = any(self._bits(step.next_state) != self._bits(first.state) for step in [first, *later])
        expect.that(written, f"after {len(later) + 1} rounds the state is still that of init_state")
        for number, step in enumerate(later, start=1):
            payload, next_state = encoder.encode(step.case.x, first.state, self.on.round_num(number))
            again = (self._bits(payload), self._bits(next_state))
            if again != (self._bits(step.payload), self._bits(step.next_state)):
                return
        expect.that(
            False, "encode gives the same whatever the state; then needs_client_state should be False"
        )

    @after("test_a_round_done_again_later_has_the_same_result")
    def test_payload_and_residual_add_up(self) -> None:
        """Tries first rounds, many rounds of one client, and rounds that it missed before the next one."""
        encoder = self.make_encoder()
        keeping = [spec for spec in self.specs() if conserves(encoder.init_state(spec))]
        if not keeping:
            raise NotApplicable("it keeps no residual without momentum")
        firsts = (step for step in self.first_steps() if conserves(step.state))
        later = (step for spec in keeping for step in self.history(encoder, spec))
        long = [step for step in self.long_history(encoder) if conserves(step.state)]
        for step in [*firsts, *later, *long]:
            self.expect_conserved(encoder, step)
        for missed in (1, 5) if long else ():
            case = long[-1].case._replace(what=f"a tensor after {missed} missed rounds")
            state = long[-1].next_state
            encoded = encoder.encode(case.x, state, self.on.round_num(len(long) + missed))
            self.expect_conserved(encoder, Step(case, state, *encoded))

    def test_a_memory_is_the_sum_of_its_sent_differences(self) -> None:
        encoder = self.declaring("sends_differences")
        for spec in self.specs():
            wide = ops.wide_spec(spec)
            known = self.on.numpy(self.on.array(np.zeros(tuple(spec.shape), tensors.numpy_dtype(wide))))
            for step in self.history(encoder, spec, rounds=6):
                sent = ops.widened(encoder.decode(step.payload, spec))
                known = self.on.numpy(self.on.array(known) + sent)
                what = f"the memory after encoding {step.case.what}"
                zero = self.on.scalar(0, wide)  # the sign of a zero is not kept
                expect.same_bits(what, step.next_state["memory"] + zero, self.on.array(known) + zero)

    @after("test_a_memory_is_the_sum_of_its_sent_differences")
    def test_a_memory_comes_near_to_a_tensor_that_stays(self) -> None:
        encoder = self.declaring("sends_differences")
        for spec in self.few_specs():
            x, state = self.on.tensor("normal", spec), encoder.init_state(spec)
            for number in range(_PATIENCE):
                _, state = encoder.encode(x, state, self.on.round_num(number))
            exact = self.on.numpy(x).astype(np.float64)
            left = np.linalg.norm(exact - self.on.numpy(state["memory"]).astype(np.float64))
            expect.that(
                left <= np.linalg.norm(exact) / 2,
                f"after {_PATIENCE} rounds with the same {tensors.name_of(spec)} the memory differs from it "
                f"by {left:.3g}, and zeros would by {np.linalg.norm(exact):.3g}; what is encoded must be the "
                "difference, and what is lost of it less than all",
            )

    def test_lossless_means_bit_for_bit(self) -> None:
        encoder = self.declaring("lossless")
        for step in self.first_steps():
            decoded = encoder.decode(step.payload, step.case.spec)
            expect.same_bits(f"decode(encode({step.case.what}))", decoded, step.case.x)

    def test_commuting_with_a_sum_means_that_payloads_may_be_summed(self) -> None:
        encoder = self.declaring("commutes_with_sum")
        for spec in self.specs():
            payloads = [self._payload(encoder, spec, seed) for seed in (1, 2)]
            what = f"two payloads of {tensors.name_of(spec)}"
            forms = [{key: (value.shape, value.dtype) for key, value in p.items()} for p in payloads]
            expect.that(forms[0] == forms[1], f"{what} have different tensors and cannot be summed: {forms}")
            for key, value in payloads[0].items():
                others = {key: payloads[1][key]}
                same = self.is_summed(value) or self._bits({key: value}) == self._bits(others)
                expect.that(same, f"{what} differ in {key!r}, which is not summed")
            summed = {key: self.summed([p[key] for p in payloads]) for key in payloads[0]}
            one, other = (self.on.numpy(encoder.decode(payload, spec)) for payload in payloads)
            want = one.astype(np.float64) + other.astype(np.float64)
            unit = expect.eps(one.dtype) * _largest(one, other)
            got = encoder.decode(summed, spec)
            expect.close(f"decode of the sum of {what}", got, want, self.linear_tolerance * unit)

    def test_unbiased_means_that_the_mean_over_rounds_is_the_input(self) -> None:
        """Runs z-tests along the input and its sum, in each part of it, and along random signs."""
        encoder = self.declaring("unbiased")
        spec = self.on.spec((_PARTS[-1],), self.tried_dtypes()[0])
        x = self.on.tensor("normal", spec)
        exact = self.on.numpy(x).astype(np.float64)
        decoded = self._decoded_over_rounds(encoder, x, spec)
        for name, direction in _directions(exact):
            errors = (decoded - exact) @ direction
            standard_error = errors.std(ddof=1) / np.sqrt(len(errors))
            rounding = 16 * expect.eps(tensors.numpy_dtype(spec)) * np.abs(exact * direction).sum()
            limit = _STANDARD_ERRORS * standard_error + rounding
            expect.that(
                abs(errors.mean()) <= limit,
                f"the mean of decode(encode(x)) over {len(errors)} rounds is off by {errors.mean():.3g} "
                f"{name}, where chance explains {limit:.3g}",
            )

    def expect_conserved(self, encoder: Encoder, step: Step) -> None:
        """Fails unless decoded values + next residual = input + `decay` * residual."""
        dtype, wide = step.state["residual"].dtype, ops.wide_dtype(step.case.spec.dtype)
        expect.that(
            dtype == wide,
            f"the residual of {tensors.name_of(step.case.spec)} is {dtype.name}; it must be {wide.name}, see "
            "fedplug.ops.wide_spec",
        )
        x, before, after = map(
            self.on.operand,
            (ops.widened(step.case.x), step.state["residual"], step.next_state["residual"]),
        )
        carried = self.on.numpy(x + ops.multiply(ops.asarray(self.decay, like=x), before))
        sent = ops.widened(encoder.decode(step.payload, step.case.spec))
        total = self.on.numpy(sent + after)
        what = f"decode(payload) + residual' of {step.case.what}"
        if self.conservation_tolerance:
            largest = _largest(*map(self.on.numpy, (sent, after)), carried)
            unit = expect.eps(carried.dtype) * largest + expect.tiny(carried.dtype)
            expect.close(what, total, carried, self.conservation_tolerance * unit)
        else:
            expect.same_bits(
                what, np.add(total, 0), np.add(carried, 0)
            )  # the sign of a zero is not conserved

    def _payload(self, encoder: Encoder, spec: Spec, seed: int) -> dict[str, Array]:
        x = self.on.tensor("normal", spec, seed)
        return dict(encoder.encode(x, encoder.init_state(spec), self.on.round_num(5))[0])

    def _decoded_over_rounds(self, encoder: Encoder, x: Array, spec: Spec) -> _Doubles:
        def one(number: Scalar) -> Array:
            payload, _ = encoder.encode(x, encoder.init_state(spec), number)
            return encoder.decode(payload, spec)

        return self.on.stacked(one, self.trials)

    def _bits(self, values: Mapping[str, Array]) -> dict[str, bytes]:
        return {key: self.on.numpy(value).tobytes() for key, value in values.items()}

    @after("test_equal_encoders_give_equal_bits", "test_a_round_done_again_later_has_the_same_result")
    def test_it_needs_a_seed_exactly_if_the_round_makes_a_difference(self) -> None:
        encoder = self.make_encoder()
        declared = encoder.capabilities.needs_seed
        found = any(self._differs_by_round(encoder, spec) for spec in self.few_specs())
        how = "depends" if found else "does not depend"
        expect.that(
            found == declared, f"needs_seed is {declared}, and what encode returns {how} on the round number"
        )

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

    def test_masked_integers_are_numbers_of_the_ring(self) -> None:
        encoder = self.declaring("ring_bits")
        bits = encoder.capabilities.ring_bits
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
    def test_a_sum_of_the_most_summands_does_not_wrap(self) -> None:
        encoder = self.declaring("most_summands")
        most = encoder.capabilities.most_summands
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

    def test_no_entry_is_further_off_than_its_error_bound(self) -> None:
        encoder = self.declaring("relative_error_bound")
        bound = encoder.capabilities.relative_error_bound
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


def _directions(x: _Doubles) -> Iterator[tuple[str, _Doubles]]:
    for begin, end in zip((0, *_PARTS), _PARTS, strict=False):
        part = np.zeros_like(x)
        part[begin:end] = 1
        where = f"of elements {begin} to {end - 1} of {x.size}"
        yield f"along x, {where}", part * x
        yield f"in the sum {where}", part
    rng = np.random.default_rng(0)
    for number in range(_DIRECTIONS):
        yield f"along random signs {number}", rng.choice([-1.0, 1.0], x.shape)


def _largest(*arrays: NDArray[np.generic]) -> float:
    return max(float(np.abs(a.astype(np.float64)).max(initial=0)) for a in arrays)
