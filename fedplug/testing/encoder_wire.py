"""Checks of an encoder's wire form: exact reading, and golden payloads."""

from __future__ import annotations

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
from fedplug.testing import expect, golden, tensors
from fedplug.testing.encoder_subject import EncoderSubject
from fedplug.testing.execution import Execution, Reader
from fedplug.testing.executions import on_each_execution
from fedplug.testing.suite import NotApplicable, after

__all__ = ["WireChecks", "decoded"]

_WIRE_ID = re.compile(r"[ -~]+/[0-9]+")
_ROUND_TRIP = "test_sent_values_are_received"
_TINY = 16


class WireChecks(EncoderSubject):
    """They run ``from_wire`` in TensorFlow graphs with an unknown number of bytes, as on a server."""

    golden: ClassVar[Path | None] = None
    """The folder of golden payloads, see `fedplug.testing.golden`. None: there are none yet."""

    def test_its_wire_id_names_a_frozen_layout(self) -> None:
        encoder = self.make_encoder()
        wire_id = encoder.wire_id
        expect.that(
            isinstance(wire_id, str) and len(wire_id) <= wire.MAX_WIRE_ID and _WIRE_ID.fullmatch(wire_id),
            f"the wire id {wire_id!r} is not valid; write a name, '/' and the layout's number, "
            f"{wire.MAX_WIRE_ID} characters at most, for instance 'topk/1'",
        )

    @on_each_execution
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
    @on_each_execution
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
    @on_each_execution
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


def decoded(on: Execution, read: Reader, data: Array, what: str) -> Array | None:
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
