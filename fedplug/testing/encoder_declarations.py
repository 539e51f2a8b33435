"""Checks of what an encoder declares for those it is stacked with: seeds, secure sums, sensitivity, dtypes.

Must not know wire forms.
"""

from __future__ import annotations

import tensorflow as tf

from fedplug.encoders.base import Encoder, Payload
from fedplug.schedules.base import MAX_ROUNDS
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.suite import NotApplicable, after

__all__ = ["DeclarationChecks"]

_ROUNDS = range(MAX_ROUNDS + 1, MAX_ROUNDS + 9)
"""Rounds in which every schedule has settled, so that only random numbers tell them apart."""


class DeclarationChecks(EncoderSubject):
    """See `fedplug.registry.specs.Capabilities`; each check applies where its capability is declared."""

    @after(
        "test_equal_encoders_give_equal_bits",
        "test_nothing_is_shared_between_clients",
        "test_a_round_done_again_later_has_the_same_result",
    )
    def test_it_needs_a_seed_exactly_if_the_round_makes_a_difference(self) -> None:
        encoder = self.make_encoder()
        declared = encoder.capabilities.needs_seed
        found = any(self._differs_by_round(encoder, spec) for spec in self.few_specs())
        how = "depends" if found else "does not depend"
        expect.that(
            found == declared, f"needs_seed is {declared}, and what encode returns {how} on the round number"
        )

    def test_safe_for_secure_aggregation_means_that_only_sums_tell_of_the_data(self) -> None:
        encoder = self.make_encoder()
        if not encoder.capabilities.secure_aggregation_safe:
            raise NotApplicable("it does not declare secure_aggregation_safe")
        seen: dict[str, tuple[str, dict[str, object]]] = {}
        for step in self.first_steps():
            name = tensors.name_of(step.case.spec)
            form = {key: _in_the_clear(value) for key, value in step.payload.items()}
            first, wanted = seen.setdefault(name, (step.case.what, form))
            expect.that(
                form == wanted,
                f"shapes, or tensors that are not of floats and so cannot be hidden in a sum, differ between "
                f"the payloads of {first} and {step.case.what}",
            )

    def test_bounded_sensitivity_means_that_no_norm_grows(self) -> None:
        encoder = self.make_encoder()
        if not encoder.capabilities.bounded_sensitivity:
            raise NotApplicable("it does not declare bounded_sensitivity")
        steps = [*self.first_steps(), *(s for spec in self.specs() for s in self.history(encoder, spec))]
        for step in steps:
            norm, given = _norm(encoder.decode(step.payload, step.case.spec)), _norm(step.case.x)
            rounding = 8 * expect.eps(step.case.spec.dtype.as_numpy_dtype) * given
            expect.that(
                norm <= given + rounding,
                f"{step.case.what} has norm {given:.6g}, and what is decoded of it {norm:.6g}",
            )

    def test_sending_every_entry_means_that_equal_magnitudes_keep_their_signs(self) -> None:
        encoder = self.make_encoder()
        if not encoder.capabilities.sends_every_entry:
            raise NotApplicable("it does not declare sends_every_entry")
        for spec in self.specs():
            signs = tf.sign(tf.cast(tensors.tensor("normal", spec), tf.float32))
            x = tf.cast(tf.where(tf.equal(signs, 0), 1.0, signs), spec.dtype)
            payload, _ = encoder.encode(x, encoder.init_state(spec), tf.constant(0))
            decoded = encoder.decode(payload, spec)
            lost = int(tf.math.count_nonzero(tf.not_equal(tf.sign(decoded), x)))
            expect.that(
                not lost,
                f"{lost} of {tf.size(x)} entries of {tensors.name_of(spec)}, all 1 or -1, are decoded as "
                "zero or with the other sign",
            )

    def test_every_dtype_it_declares_goes_there_and_back(self) -> None:
        encoder = self.make_encoder()
        for name in encoder.capabilities.dtypes:
            spec = tf.TensorSpec([7], tf.as_dtype(name))
            payload, _ = encoder.encode(
                tensors.tensor("normal", spec), encoder.init_state(spec), tf.constant(0)
            )
            decoded = encoder.decode(encoder.from_wire(encoder.to_wire(payload, spec), spec), spec)
            expect.that(
                decoded.dtype == spec.dtype,
                f"{name} is declared, and decoded tensors are {decoded.dtype.name}",
            )

    def _differs_by_round(self, encoder: Encoder, spec: tf.TensorSpec) -> bool:
        x = tensors.tensor("normal", spec)
        payloads = (encoder.encode(x, encoder.init_state(spec), tf.constant(r))[0] for r in _ROUNDS)
        return len({_bits(payload) for payload in payloads}) > 1


def _bits(payload: Payload) -> tuple[tuple[str, bytes], ...]:
    return tuple((key, _serialized(payload[key])) for key in sorted(payload))


def _serialized(value: tf.Tensor) -> bytes:
    # NumPy by itself cannot read a tensor that is a bfloat16 scalar.
    return bytes(tf.io.serialize_tensor(value).numpy())


def _in_the_clear(value: tf.Tensor) -> object:
    """What is seen of a tensor when all clients' floats are summed in secret."""
    return (value.dtype.name, tuple(value.shape)) if value.dtype.is_floating else _serialized(value)


def _norm(x: tf.Tensor) -> float:
    return float(tf.norm(tf.cast(x, tf.float64)))
