"""Checks of the promises of every encoder: configuration, purity, shapes, sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.ops.types import Array
from fedplug.testing import expect, tensors
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.executions import on_each_execution
from fedplug.testing.suite import after

__all__ = ["ContractChecks"]


class ContractChecks(EncoderSubject):
    """See `fedplug.encoders.base.Encoder`."""

    foundation = "test_its_methods_can_be_called_and_return_what_they_should"

    @on_each_execution
    def test_its_methods_can_be_called_and_return_what_they_should(self) -> None:
        for spec in self.specs():
            encoder, what = self.make_encoder(), tensors.name_of(spec)
            state = encoder.init_state(spec)
            self._arrays_by_name(f"init_state({what})", state)
            encoded = encoder.encode(self.on.tensor("normal", spec), state, self.on.round_num(0))
            expect.that(
                isinstance(encoded, tuple) and len(encoded) == 2,
                f"encode({what}) returns {_kind(encoded)}, not the pair (payload, next state)",
            )
            self._arrays_by_name(f"the payload of {what}", encoded[0])
            self._arrays_by_name(f"the next state of {what}", encoded[1])
            decoded = encoder.decode(encoded[0], spec)
            expect.that(self.on.is_array(decoded), f"decode({what}) returns {_kind(decoded)}, not an array")

    def test_equal_encoders_give_equal_bits(self) -> None:
        for spec in self.specs():
            histories = [list(self.history(self.make_encoder(), spec)) for _ in range(2)]
            for one, other in zip(*histories, strict=True):
                expect.same_tensors(f"payload of {one.case.what}, second time", other.payload, one.payload)
                expect.same_tensors(
                    f"state of {one.case.what}, second time", other.next_state, one.next_state
                )

    @after("test_equal_encoders_give_equal_bits")
    def test_a_round_done_again_later_has_the_same_result(self) -> None:
        """Repeats the rounds from the last to the first with their states, as after a restart."""
        done = self.long_history(self.make_encoder())
        again = self.make_encoder()
        for number, step in reversed(list(enumerate(done))):
            payload, next_state = again.encode(step.case.x, step.state, self.on.round_num(number))
            what = f"{step.case.what}, done again after later rounds"
            expect.same_tensors(f"payload of {what}", payload, step.payload)
            expect.same_tensors(f"state of {what}", next_state, step.next_state)

    @after("test_a_round_done_again_later_has_the_same_result")
    @on_each_execution
    def test_it_keeps_nothing_of_a_client_on_itself(self) -> None:
        """A cache may depend on the shape. Anything that depends on the data must be state."""
        encoder = self.make_encoder()
        for spec in self.specs():
            found = []
            for seed in (1, 2):
                for step in self.history(encoder, spec, seed=seed):
                    encoder.decode(step.payload, spec)
                found.append({name: _digest(value) for name, value in vars(encoder).items()})
            before, now = found
            changed = sorted(name for name in now if now[name] != before.get(name))
            expect.that(
                not changed,
                f"encoding {tensors.name_of(spec)} changed {', '.join(f'self.{name}' for name in changed)}; "
                "what a client keeps belongs into the state that encode returns",
            )

    @on_each_execution
    def test_its_arguments_are_not_changed(self) -> None:
        for spec in self.specs():
            encoder = self.make_encoder()
            for step in self.history(encoder, spec):
                accumulator, weight = self.on.ones(spec), self.on.scalar(2, spec)
                given = {"x": step.case.x, **step.state, **step.payload, "accumulator": accumulator}
                before = {key: np.array(self.on.numpy(value)) for key, value in given.items()}
                encoder.encode(step.case.x, step.state, self.on.round_num(0))
                encoder.to_wire(step.payload, spec)
                encoder.decode(step.payload, spec)
                encoder.accumulate(accumulator, step.payload, weight, spec)
                expect.same_tensors(f"arguments after encoding {step.case.what}", given, before)

    def test_the_state_keeps_its_structure_shapes_and_dtypes(self) -> None:
        for spec in self.specs():
            for step in self.history(self.make_encoder(), spec):
                before, now = ({k: _form(v) for k, v in s.items()} for s in (step.state, step.next_state))
                expect.that(now == before, f"state of {step.case.what}: from {before} to {now}")

    def test_decoded_values_are_finite_and_have_shape_and_dtype_of_the_input(self) -> None:
        for step in self.first_steps():
            decoded = self.make_encoder().decode(step.payload, step.case.spec)
            form, wanted = _form(decoded), _form(step.case.x)
            expect.that(form == wanted, f"{step.case.what} is decoded as {form}")
            if not self._is_finite(decoded):
                parts = {"payload": step.payload, "next state": step.next_state}
                others = [
                    f", as has {name!r} of its {part}"
                    for part, arrays in parts.items()
                    for name, array in arrays.items()
                    if not self._is_finite(array)
                ]
                expect.that(False, f"{step.case.what} is decoded with a NaN or an infinity{''.join(others)}")

    def test_decoded_values_have_the_sign_of_the_input(self) -> None:
        """The inner product of x and decode(encode(x)) is not negative, for x and for -x."""
        encoder = self.make_encoder()
        for spec in self.specs():
            x = tensors.tensor("normal", spec)
            for what, values in (("x", x), ("-x", -x)):
                side = self.on.array(values)
                payload, _ = encoder.encode(side, encoder.init_state(spec), self.on.round_num(0))
                product = np.vdot(*(self._doubles(y) for y in (side, encoder.decode(payload, spec))))
                expect.that(
                    product >= 0,
                    f"{tensors.name_of(spec)}: the inner product of {what} and what is decoded for it is "
                    f"{product:.3g}; a server that adds this up goes the wrong way",
                )

    def test_zeros_are_decoded_as_zeros(self) -> None:
        encoder = self.make_encoder()
        for spec in self.specs():
            for kind in ("zeros", "negative zeros"):
                payload, _ = encoder.encode(
                    self.on.tensor(kind, spec), encoder.init_state(spec), self.on.round_num(0)
                )
                decoded = encoder.decode(payload, spec)
                expect.close(f"{tensors.name_of(spec)} of {kind}, decoded", decoded, np.zeros(spec.shape), 0)

    @after("test_zeros_are_decoded_as_zeros")
    @on_each_execution
    def test_denormal_numbers_keep_their_size(self) -> None:
        """They may become zero, as in TensorFlow's own arithmetic, but never something else."""
        encoder = self.make_encoder()
        for spec in self.specs():
            if not ops.is_floating(spec.dtype):
                continue
            x = self.on.array(tensors.denormals(spec))
            payload, _ = encoder.encode(x, encoder.init_state(spec), self.on.round_num(0))
            limit = expect.tiny(tensors.numpy_dtype(spec)) * (16 + ops.num_elements(spec))
            what = f"{tensors.name_of(spec)} of denormal numbers, decoded"
            expect.close(what, encoder.decode(payload, spec), np.zeros(spec.shape), limit)

    def test_accumulating_is_adding_the_weighted_decoded_tensor(self) -> None:
        encoder = self.make_encoder()
        for step in self.first_steps():
            spec = step.case.spec
            accumulator, weight = self.on.tensor("normal", spec, seed=7), self.on.scalar(3, spec)
            with np.errstate(over="ignore"):
                want = self.on.operand(accumulator) + weight * encoder.decode(step.payload, spec)
                got = encoder.accumulate(accumulator, step.payload, weight, spec)
            expect.same_bits(f"accumulate({step.case.what})", got, want)

    def _arrays_by_name(self, what: str, value: object) -> None:
        expect.that(isinstance(value, Mapping), f"{what} is {_kind(value)}, not a mapping of arrays by name")
        assert isinstance(value, Mapping)
        for name, each in value.items():
            expect.that(isinstance(name, str), f"{what} has the key {name!r}, which is not text")
            expect.that(self.on.is_array(each), f"{what} has {_kind(each)} under {name!r}, not an array")

    def _is_finite(self, array: Array) -> bool:
        return not ops.is_floating(array.dtype) or bool(np.isfinite(self._doubles(array)).all())

    def _doubles(self, value: Array) -> NDArray[np.float64]:
        return self.on.numpy(value).astype(np.float64)


def _digest(value: object) -> object:
    """Returns a digest of a value, to detect changes."""
    if isinstance(value, Mapping):
        return [(repr(key), _digest(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_digest(each) for each in value]
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        try:
            array = np.asarray(value)
        except Exception:  # a tensor of a graph
            return id(value)
        return array.dtype.str, array.shape, array.tobytes()
    return repr(value)


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def _form(value: Array) -> str:
    """Returns shape and dtype."""
    return f"{value.dtype.name}{list(value.shape)}"
