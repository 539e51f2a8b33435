"""Checks of an encoder's wire form: exact reading, golden payloads, and untrusted bytes."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders import containers
from fedplug.encoders.base import Encoder, body_parts
from fedplug.encoders.pipeline.changes import change_coder
from fedplug.ops.types import Array, Spec
from fedplug.registry.forking import Say, can_fork
from fedplug.testing import expect, golden, tensors
from fedplug.testing.child import guarded, in_child
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.execution import Execution, Reader
from fedplug.testing.executions import on_each_execution
from fedplug.testing.suite import CannotRun, NotApplicable, after

__all__ = ["WireChecks"]

_WIRE_ID = re.compile(r"[ -~]+/[0-9]+")
_ROUND_TRIP = "test_sent_values_are_received"
_TINY = 16
_COUNTS = (0x7FFFFFFF, 0xFFFFFFFF, 0x08000000, 0)
_COUNTED_BYTES = 8
_LEB128_COUNTS = (b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x80\x00", b"\xff" * 6)
"""2^31 - 1; 2^31; 0 in more bytes than it needs; a number that does not end."""
_FLIPS = 40
_CUTS = 16
_RANDOM = 16
_FINITE = "test_decoded_values_are_finite_and_have_shape_and_dtype_of_the_input"
_REFUSED = "test_hostile_bytes_are_refused_or_are_a_valid_payload"


class WireChecks(EncoderSubject):
    """They run ``from_wire`` in TensorFlow graphs with an unknown number of bytes, as on a server.

    Those of untrusted bytes run in a process of their own on NumPy arrays, because a wrong kernel may crash.
    """

    golden: ClassVar[Path | None] = None
    """The folder of golden payloads, see `fedplug.testing.golden`. None: there are none yet."""

    hostile_allowance: ClassVar[int] = 2**20
    """Bytes of memory that reading damaged payloads of tiny tensors may take at most."""

    def test_its_wire_id_names_a_frozen_layout(self) -> None:
        encoder = self.make_encoder()
        wire_id = encoder.wire_id
        expect.that(
            isinstance(wire_id, str) and len(wire_id) <= wire.MAX_WIRE_ID and _WIRE_ID.fullmatch(wire_id),
            f"the wire id {wire_id!r} is not valid; write a name, '/' and the layout's number, "
            f"{wire.MAX_WIRE_ID} characters at most, for instance 'topk/1'",
        )

    def test_sent_values_are_received(self) -> None:
        encoder = self.make_encoder()
        for step in self.first_steps():
            spec = step.case.spec
            body = encoder.to_wire(step.payload, spec)
            expect.that(
                body.dtype.name == "uint8" and len(body.shape) == 1,
                f"to_wire({step.case.what}) is {tensors.name_of(body)}, not a uint8 vector",
            )
            received = encoder.decode(encoder.from_wire(body, spec), spec)
            want = encoder.decode(step.payload, spec)
            expect.same_bits(f"{step.case.what} after to_wire and from_wire, decoded", received, want)

    @after(_ROUND_TRIP)
    def test_no_byte_is_spent_twice(self) -> None:
        encoder = self.make_encoder()
        for spec, body in self._bodies(encoder):
            parts = body_parts(encoder, body, spec)
            indices, values = (int(np.asarray(part)) for part in parts[:2])
            expect.that(
                indices >= 0 and values >= 0 and indices + values <= body.shape[0],
                f"body_parts of {tensors.name_of(spec)} has {indices} bytes of indices and {values} of "
                f"values, and to_wire wrote {body.shape[0]}",
            )

    @after(_ROUND_TRIP)
    def test_entries_are_read_from_their_own_symbols(self) -> None:
        """Tests `fedplug.encoders.pipeline.changes`, which takes some entries out of a payload."""
        encoder = self.make_encoder()
        for step in self.first_steps():
            spec = step.case.spec
            coder = change_coder(encoder, spec)
            if coder is None:
                raise NotApplicable("its entries have no symbols of their own")
            body = encoder.to_wire(step.payload, spec)
            whole = encoder.decode(encoder.from_wire(body, spec), spec)
            sent = ops.reshape(ops.arange(ops.num_elements(spec)), whole.shape) % 3 == 1
            old = ops.zeros_like(whole)
            found = coder.decode(coder.encode(containers.frame(body, encoder.wire_id, spec), sent), old)
            expect.same_bits(
                f"every third entry of {step.case.what}, sent without the others",
                found,
                np.where(sent, self.on.numpy(whole), self.on.numpy(old)),
            )

    @after(_ROUND_TRIP)
    @on_each_execution
    def test_golden_payloads_are_read_as_they_always_were(self) -> None:
        encoder = self.make_encoder()
        if self.golden is None:
            raise NotApplicable("the suite names no folder of golden payloads")
        vectors = list(golden.read(self.golden, encoder.wire_id))
        expect.that(
            vectors,
            f"no golden payload of {encoder.wire_id!r} in {self.golden}; add one with "
            "`python -m fedplug.testing.golden`",
        )
        for vector in vectors:
            writer = type(encoder).from_config(vector.config)
            spec = self.on.spec(vector.shape, vector.dtype)
            decoded = writer.decode(writer.from_wire(self._data(vector.body), spec), spec)
            expect.same_bits(f"golden payload {vector.name}, decoded", decoded, vector.decoded)

    def _bodies(self, encoder: Encoder) -> Iterator[tuple[Spec, Array]]:
        """Returns valid payloads of small tensors."""
        for spec in self.few_specs(largest=_TINY) or self.few_specs()[:1]:
            x = self.on.tensor("normal", spec)
            payload, _ = encoder.encode(x, encoder.init_state(spec), self.on.round_num(0))
            yield spec, encoder.to_wire(payload, spec)

    def _readers(self, encoder: Encoder, spec: Spec) -> tuple[Reader, ...]:
        return self.on.readers(lambda body: encoder.decode(encoder.from_wire(body, spec), spec))

    def _data(self, data: bytes) -> Array:
        return self.on.array(np.frombuffer(data, np.uint8))

    @after(_ROUND_TRIP, _FINITE)
    @on_each_execution
    def test_hostile_bytes_are_refused_or_are_a_valid_payload(self) -> None:
        """A single NaN or infinity would make the sum over all clients non-finite."""
        encoder = self.make_encoder()

        def check(say: Say) -> None:
            for spec, good in self._valid(encoder):
                readers = self._readers(encoder, spec)
                for number, (data, what) in enumerate(self._damaged(spec, good)):
                    say(what)
                    read = readers[-1 if number % 16 == 0 else 0]
                    found = _decoded(self.on, read, self._data(data), what)
                    if found is None:
                        continue
                    form = (found.dtype, found.shape)
                    expect.that(form == (spec.dtype, spec.shape), f"{what} is decoded as {form}")
                    expect.that(
                        np.isfinite(self.on.numpy(found).astype(np.float64)).all(),
                        f"{what} is decoded with a NaN or an infinity; from_wire should refuse it",
                    )

        self.on.isolated(check)

    @after(_ROUND_TRIP, _REFUSED)
    @on_each_execution
    def test_hostile_bytes_that_are_accepted_have_one_meaning(self) -> None:
        """Missing bytes, bytes behind the end, and numbers that no encoder writes must be refused."""
        encoder = self.make_encoder()
        stages = getattr(encoder, "stages", ())

        def check(say: Say) -> None:
            for spec, good in self._valid(encoder):
                read, *_ = self._readers(encoder, spec)
                write, *_ = self._writers(encoder, spec)
                for data, what in self._damaged(spec, good):
                    say(what)
                    found = self._accepted(read, data)
                    if found is None:
                        continue
                    again = self.on.numpy(write(self._data(data))).tobytes()
                    expect.that(
                        again == data,
                        f"{what} is accepted, and what is read from it is written as other bytes "
                        f"({len(again)} of them, not {len(data)}); from_wire should refuse it",
                    )
                    # A pipeline keeps the bytes of its quantizer, so only another length can show this.
                    whole = data[: len(good)].ljust(len(good), b"\0")
                    expect.that(
                        not stages or len(data) == len(good) or found != self._accepted(read, whole),
                        f"{what} is read like {len(good)} bytes, with zeros for those that are missing and "
                        "without those that are too many; from_wire should refuse it",
                    )

        self.on.isolated(check)

    @after(_ROUND_TRIP, _REFUSED)
    @on_each_execution
    def test_hostile_bytes_do_not_take_memory(self) -> None:
        encoder = self.make_encoder()

        def check(say: Say) -> None:
            for spec, good in self._valid(encoder):
                read, *_ = self._readers(encoder, spec)
                _attempt(read, self._data(good))  # which loads what is used first
                for data, what in self._damaged(spec, good):
                    say(what)
                    attempt = functools.partial(_attempt, read, self._data(data))
                    taken = self.on.peak_memory(attempt, self.hostile_allowance)
                    expect.that(
                        taken <= self.hostile_allowance,
                        f"{what} made from_wire take {taken / 2**20:.1f} MiB",
                    )

        self.on.isolated(check)

    @after(_ROUND_TRIP, _REFUSED)
    def test_no_byte_outside_of_a_buffer_is_read(self) -> None:
        """Puts tensors, states and payloads beside unreadable memory."""
        self.require("numpy")
        if not can_fork():
            raise CannotRun("this system has no os.fork")
        encoder = self.make_encoder()
        specs = self.few_specs()
        few = [spec for spec, _ in self._valid(encoder)]

        def check(say: Say) -> None:
            for spec in specs:
                x, state = self.on.tensor("normal", spec), encoder.init_state(spec)
                kept = {key: list(guarded(np.asarray(value))) for key, value in state.items()}
                for place, (copy, where) in enumerate(guarded(np.asarray(x))):
                    say(f"encoding {tensors.name_of(spec)} {where}")
                    beside = {key: copies[place][0] for key, copies in kept.items()}
                    payload, _ = encoder.encode(copy, beside, self.on.round_num(0))
                good = np.asarray(encoder.to_wire(payload, spec)).tobytes()
                read, *_ = self._readers(encoder, spec)
                valid = (good, f"a payload of {tensors.name_of(spec)}")
                for data, what in [valid, *(self._damaged(spec, good) if spec in few else ())]:
                    for copy, where in guarded(np.frombuffer(data, np.uint8)):
                        say(f"{what.rstrip(',')} {where}")
                        _attempt(read, copy)

        in_child(check)

    def _valid(self, encoder: Encoder) -> Iterator[tuple[Spec, bytes]]:
        for spec, body in self._bodies(encoder):
            yield spec, self.on.numpy(body).tobytes()

    def _damaged(self, spec: Spec, good: bytes) -> Iterator[tuple[bytes, str]]:
        """Yields damaged copies of a payload, each with a description that begins a sentence."""
        for data, damage in [*_damaged(good), *_all_ones(good)]:
            if data != good:
                yield data, f"a payload of {tensors.name_of(spec)}, {damage},"

    def _writers(self, encoder: Encoder, spec: Spec) -> tuple[Reader, ...]:
        """Returns functions that read a payload and write it again."""
        return self.on.readers(lambda data: encoder.to_wire(encoder.from_wire(data, spec), spec))

    def _accepted(self, read: Reader, data: bytes) -> bytes | None:
        """Returns the bits of the decoded values. None if the bytes are refused."""
        try:
            return self.on.numpy(read(self._data(data))).tobytes()
        except self.on.refuses:
            return None


def _decoded(on: Execution, read: Reader, data: Array, what: str) -> Array | None:
    """Returns the decoded value, or None if the reader refuses the bytes correctly."""
    try:
        return read(data)
    except on.refuses:
        return None
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        wanted = f"{on.refuses.__module__}.{on.refuses.__name__}"
        raise expect.ConformanceError(
            f"{what} raises {type(error).__name__} instead of {wanted}: {reason}"
        ) from error


def _attempt(read: Reader, data: Array) -> None:
    """Ignores errors, which another check covers."""
    with contextlib.suppress(Exception):
        read(data)


def _all_ones(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Yields the bytes with each aligned run set to ones, which is a NaN in all floating dtypes."""
    for width in (2, 4, 8):
        for at in range(0, len(data) - width + 1, width):
            yield data[:at] + b"\xff" * width + data[at + width :], f"bytes {at} to {at + width} set to ones"


def _damaged(body: bytes) -> Iterator[tuple[bytes, str]]:
    """Yields damaged copies of a payload with a description of the damage. The same for equal payloads."""
    rng = np.random.default_rng(len(body))
    for length in sorted({*range(min(len(body), _CUTS // 2)), *_some(rng, len(body), _CUTS)}):
        yield body[:length], f"cut to {length} of {len(body)} bytes"
    yield body + b"\0", "a zero byte appended"
    yield body + body, "sent twice in one"
    for bit in _some(rng, 8 * len(body), _FLIPS):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped), f"bit {bit} flipped"
    for at in range(min(len(body) - 3, _COUNTED_BYTES)):
        for count in _COUNTS:
            yield body[:at] + count.to_bytes(4, "little") + body[at + 4 :], f"{count:#x} written at byte {at}"
    for at in range(min(len(body), 2)):
        for leb128 in _LEB128_COUNTS:
            yield body[:at] + leb128 + body[at + 1 :], f"the number {leb128.hex()} written at byte {at}"
    for number in range(_RANDOM):
        length = len(body) if number % 2 else int(rng.integers(0, 2 * len(body) + 8))
        yield rng.bytes(length), f"{length} random bytes"


def _some(rng: np.random.Generator, below: int, count: int) -> list[int]:
    return sorted(rng.choice(below, min(count, below), replace=False).tolist()) if below else []
