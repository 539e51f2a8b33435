"""Checks of an encoder's wire form: read back exactly, frozen, and safe against bytes that nobody encoded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from fedplug import wire
from fedplug.encoders import framing
from fedplug.encoders.base import Encoder
from fedplug.testing import expect, golden, hostile, tensors
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.suite import NotApplicable, after

__all__ = ["WireChecks"]

_WIRE_ID = re.compile(r"[ -~]+/[0-9]+")
_ROUND_TRIP = "test_what_is_sent_is_received"
_FINITE = "test_what_is_decoded_is_finite_and_has_shape_and_dtype_of_the_input"
_REFUSED = "test_hostile_bytes_are_refused_or_are_a_valid_payload"
_TINY = 16

Reader = Callable[[tf.Tensor], tf.Tensor]


class WireChecks(EncoderSubject):
    """``from_wire`` is run in graphs with an unknown number of bytes, as on a server."""

    golden: ClassVar[Path | None] = None
    """The folder of golden payloads, see `fedplug.testing.golden`; None: there are none yet."""

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

    def test_what_is_sent_is_received(self) -> None:
        encoder = self.make_encoder()
        for step in self.first_steps():
            spec = step.case.spec
            body = encoder.to_wire(step.payload, spec)
            expect.that(
                body.dtype == tf.uint8 and body.shape.rank == 1,
                f"to_wire({step.case.what}) is {body.dtype.name}{body.shape.as_list()}, not a uint8 vector",
            )
            received = encoder.decode(encoder.from_wire(body, spec), spec)
            want = encoder.decode(step.payload, spec)
            expect.same_bits(f"{step.case.what} after to_wire and from_wire, decoded", received, want)

    @after(_ROUND_TRIP, "test_its_wire_id_names_a_frozen_layout")
    def test_payloads_of_another_encoder_or_tensor_are_refused(self) -> None:
        encoder = self.make_encoder()
        for spec, body in self._bodies(encoder):
            other_dtype = tf.float64 if spec.dtype != tf.float64 else tf.float32
            others = {
                "another wire id": framing.frame(body, "other/1", spec),
                "another dtype": framing.frame(body, encoder.wire_id, tf.TensorSpec(spec.shape, other_dtype)),
                "another shape": framing.frame(
                    body, encoder.wire_id, tf.TensorSpec([*spec.shape, 1], spec.dtype)
                ),
                "no header": body,
            }
            read = _reader(encoder, spec, framed=True)
            for what, buffer in others.items():
                decoded = _decoded(read, buffer, f"{tensors.name_of(spec)} in a container with {what}")
                expect.that(
                    decoded is None, f"a container of {tensors.name_of(spec)} with {what} is accepted"
                )

    @after(_ROUND_TRIP)
    def test_hostile_bytes_are_refused_or_are_a_valid_payload(self) -> None:
        encoder = self.make_encoder()
        for spec, body in self._bodies(encoder):
            read = _reader(encoder, spec)
            eagerly: Reader = functools.partial(_read, encoder, spec, framed=False)
            for number, (data, damage) in enumerate(hostile.damaged(bytes(body.numpy()))):
                what = f"a payload of {tensors.name_of(spec)}, {damage},"
                decoded = _decoded(eagerly if number % 16 == 0 else read, _tensor(data), what)
                if decoded is not None:
                    form = (decoded.dtype, decoded.shape)
                    expect.that(form == (spec.dtype, spec.shape), f"{what} is decoded as {form}")

    @after(_ROUND_TRIP, _REFUSED, _FINITE)
    def test_hostile_bytes_never_become_nan_or_infinity(self) -> None:
        """One of them in one payload would spoil the sum over all clients."""
        encoder = self.make_encoder()
        for spec, body in self._bodies(encoder):
            read = _reader(encoder, spec)
            for data, damage in [*hostile.damaged(bytes(body.numpy())), *_all_ones(body)]:
                what = f"a payload of {tensors.name_of(spec)}, {damage},"
                decoded = _decoded(read, _tensor(data), what)
                finite = decoded is None or np.isfinite(np.asarray(decoded).astype(np.float64)).all()
                expect.that(
                    finite, f"{what} is decoded with a NaN or an infinity; from_wire should refuse it"
                )

    @after(_ROUND_TRIP, _REFUSED)
    def test_hostile_bytes_do_not_take_memory(self) -> None:
        encoder = self.make_encoder()
        for spec, body in self._bodies(encoder):
            read = _reader(encoder, spec)
            for data, damage in hostile.damaged(bytes(body.numpy())):
                taken = hostile.peak_memory(
                    functools.partial(_attempt, read, _tensor(data)), self.hostile_allowance
                )
                expect.that(
                    taken <= self.hostile_allowance,
                    f"a payload of {tensors.name_of(spec)}, {damage}, made from_wire take "
                    f"{taken / 2**20:.1f} MiB",
                )

    @after(_ROUND_TRIP)
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
            spec = tf.TensorSpec(vector.shape, tf.as_dtype(vector.dtype))
            decoded = writer.decode(writer.from_wire(_tensor(vector.body), spec), spec)
            expect.same_bits(f"golden payload {vector.name}, decoded", decoded, vector.decoded)

    def _bodies(self, encoder: Encoder) -> Iterator[tuple[tf.TensorSpec, tf.Tensor]]:
        """Good payloads of small tensors."""
        for spec in self.few_specs(largest=_TINY):
            x = tensors.tensor("normal", spec)
            payload, _ = encoder.encode(x, encoder.init_state(spec), tf.constant(0))
            yield spec, encoder.to_wire(payload, spec)


def _reader(encoder: Encoder, spec: tf.TensorSpec, *, framed: bool = False) -> Reader:
    def read(data: tf.Tensor) -> tf.Tensor:
        return _read(encoder, spec, data, framed=framed)

    function = tf.function(read, input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
    graph: Reader = function.get_concrete_function()
    return graph


def _read(encoder: Encoder, spec: tf.TensorSpec, data: tf.Tensor, *, framed: bool) -> tf.Tensor:
    body = framing.unframe(data, encoder.wire_id, spec) if framed else data
    return encoder.decode(encoder.from_wire(body, spec), spec)


def _decoded(read: Reader, data: tf.Tensor, what: str) -> Any:
    """What a reader makes of the bytes; None when it refuses them in the right way."""
    try:
        return read(data)
    except tf.errors.InvalidArgumentError:
        return None
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise expect.ConformanceError(
            f"{what} raises {type(error).__name__} instead of tf.errors.InvalidArgumentError: {reason}"
        ) from error


def _attempt(read: Reader, data: tf.Tensor) -> None:
    """Other errors are the business of another check."""
    try:
        read(data)
    except tf.errors.OpError:
        return


def _tensor(data: bytes) -> tf.Tensor:
    return tf.constant(np.frombuffer(data, np.uint8))


def _all_ones(body: tf.Tensor) -> Iterator[tuple[bytes, str]]:
    """Every aligned run of bytes set to ones, which is a NaN in all floating-point dtypes."""
    data = bytes(body.numpy())
    for width in (2, 4, 8):
        for at in range(0, len(data) - width + 1, width):
            yield data[:at] + b"\xff" * width + data[at + width :], f"bytes {at} to {at + width} set to ones"
