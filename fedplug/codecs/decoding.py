"""From bytes to arrays, without a configuration: a payload says itself what reads it.

Its wire id names the encoder, or the stages, by the wire ids that plugins declare (`EncoderSpec.wire_id`);
what these need to know (bits, block sizes, seeds) they read off the bytes, see `Encoder.from_payload`. Every
byte is untrusted.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Collection, Container, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels, ops
from fedplug.codecs.arrays import DTYPES, require_mapping, require_output
from fedplug.encoders.base import Encoder
from fedplug.encoders.pipeline.stage_order import DEFAULT_INDEX_CODER, DEFAULT_QUANTIZER
from fedplug.encoders.pipeline.value_coder import ValueCoder
from fedplug.encoders.stages import CodedStage, EntropyCoder, IndexCoder, Quantizer
from fedplug.encoders.standalone.identity import Identity
from fedplug.errors import ArgumentError, ConfigError, PayloadError
from fedplug.ops import donation
from fedplug.ops.types import ArraySpec, IndexForm
from fedplug.registry.component import plain
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

__all__ = [
    "BUILT_IN",
    "DEFAULT_MAX_BYTES",
    "Received",
    "WireIds",
    "decode",
    "decode_model",
    "expected_of",
    "receive",
]

DEFAULT_MAX_BYTES = 2**30

_SPARSE = "sparse/1"
_DEFAULTS = {DEFAULT_QUANTIZER.wire_id, DEFAULT_INDEX_CODER.wire_id}
"""What the wire id of a sparse payload leaves out."""


WireIds = Container[str] | None
"""The wire ids that a receiver expects; None for any that an installed encoder reads."""

_INDEX_BYTES = 4
_SYMBOL_BYTES = 1
_TRIT_SYMBOL_BYTES = 9
"""Bytes that decoding takes meanwhile for a value's index, symbol, and symbol of digits of base 3."""


class _BuiltIn(Container[str]):
    """The wire ids that fedplug's own encoders write, those of pipelines included."""

    def __contains__(self, wire_id: object) -> bool:
        parts = str(wire_id).split("+")
        return {*parts} <= _own_wire_ids() | {_SPARSE}

    def __repr__(self) -> str:
        return "the wire ids of fedplug's own encoders"


BUILT_IN = _BuiltIn()
"""The wire ids that fedplug's own encoders write: for a server that does not know its clients' encoder."""


class Received(NamedTuple):
    """What a payload stands for.

    Attributes:
        spec: Of the array that was encoded.
        values: Its elements, ``[n]``; or of a sparse payload those that were sent, ``[k]``.
        indices: Where these are, strictly ascending, ``[k]`` int32; None where all elements were sent.
    """

    spec: ArraySpec
    values: NDArray[Any]
    indices: NDArray[np.int32] | None


def decode(
    payload: Any,
    *,
    out: NDArray[Any] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    wire_ids: WireIds = None,
) -> NDArray[Any]:
    """The array that a payload stands for, whichever encoder wrote it.

    Args:
        payload: From `Codec.encode`, or of a TFF process: bytes, or any C-contiguous buffer. Untrusted.
        out: Of the array's shape and dtype, to be written over; after an error it holds anything.
        max_bytes: The most memory that decoding may take, the new array included: a payload of a few bytes
            can stand for any number of zeros. With ``out`` there is no such limit, as its shape is one.
        wire_ids: The wire ids to accept, for instance ``{codec.encoder.wire_id}``; a payload of any other is
            refused before its body is read. None: those of all installed encoders.

    Returns:
        ``out``, or a new array: of the shape and dtype that the payload names, finite.

    Raises:
        PayloadError: The bytes are no payload, were changed on the way, take more than ``max_bytes`` to
            decode, or are of an encoder that is not expected or not installed.
        ArgumentError: ``out`` does not fit, or ``payload`` is no buffer.
    """
    plan, body = _opened(payload, wire_ids)
    spec = plan.spec
    if out is not None:
        require_output(out, spec.shape, spec.dtype)
    else:
        _require_at_most(max_bytes, plan, body)
    _, values, indices = _read(plan, body, out)
    if indices is not None:
        dense = kernels.scatter_decode(values, indices, size=plan.size, out=out)
        return dense if out is not None else dense.reshape(spec.shape)
    if out is not None:
        if values.base is not out and not np.shares_memory(values, out):
            np.copyto(out, values.reshape(spec.shape))
        return out
    if np.may_share_memory(values, body):
        values = values.copy()
    return values.reshape(spec.shape)


def decode_model(
    payloads: Mapping[str, Any],
    *,
    out: Mapping[str, NDArray[Any]] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    wire_ids: WireIds | Mapping[str, Container[str]] = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of a model, by name.

    Args:
        payloads: From `Codec.encode_model`.
        out: Arrays to be written over, by name, for some or all of them.
        max_bytes: The most memory that decoding may take, all new arrays included.
        wire_ids: The expected wire ids, as for `decode`: of all arrays, or by name, as
            `Codec.wire_ids` returns them.

    Raises:
        PayloadError: As for `decode`; the message names the tensor.
        ArgumentError: As for `decode`.
    """
    require_mapping("what a client sent", "payloads", payloads)
    if isinstance(wire_ids, Mapping) and (unknown := sorted(payloads.keys() - wire_ids.keys())):
        raise PayloadError(f"there are payloads of {unknown}, which wire_ids does not name")
    arrays: dict[str, NDArray[Any]] = {}
    places = out or {}
    for name, payload in payloads.items():
        try:
            arrays[name] = decode(
                payload, out=places.get(name), max_bytes=max_bytes, wire_ids=expected_of(wire_ids, name)
            )
        except (ArgumentError, PayloadError) as error:
            raise type(error)(f"tensor {name!r}: {error}") from error
        if name not in places:
            max_bytes = max_bytes - arrays[name].nbytes  # not in place: it may be the caller's array
    return arrays


def expected_of(wire_ids: WireIds | Mapping[str, Container[str]], name: str) -> WireIds:
    """Returns the wire ids that are expected of one array of a model.

    Raises:
        ArgumentError: They are given by name, and not for this one.
    """
    if not isinstance(wire_ids, Mapping):
        return wire_ids
    if name not in wire_ids:
        raise ArgumentError(f"wire_ids does not name it; it names {sorted(wire_ids)}")
    return wire_ids[name]


def receive(
    payload: Any, *, shape: tuple[int, ...], place: NDArray[Any] | None, wire_ids: WireIds = None
) -> Received:
    """Decodes a payload; a sparse one stays sparse if its entries take less memory.

    Args:
        payload: As for `decode`.
        shape: That it must have.
        place: Where the elements of a dense payload may go, if they fit.
        wire_ids: The expected wire ids, as for `decode`.

    Raises:
        PayloadError: As for `decode`; or the payload is of another shape.
    """
    plan, body = _opened(payload, wire_ids)
    if plan.spec.shape != shape:
        raise PayloadError(f"the payload is of shape {list(plan.spec.shape)}; expected {list(shape)}")
    received = _read(plan, body, place)
    if received.indices is None or received.values.nbytes + received.indices.nbytes <= plan.array_bytes:
        return received
    dense = kernels.scatter_decode(received.values, received.indices, size=plan.size)
    return received._replace(values=dense, indices=None)


def _opened(payload: Any, wire_ids: WireIds) -> tuple[_Plan, NDArray[np.uint8]]:
    if isinstance(wire_ids, str):
        raise ArgumentError(f"wire_ids is {wire_ids!r}; give a set of wire ids")
    try:
        wire_id, dtype, shape, body = kernels.read_container(payload)
    except TypeError as error:
        raise ArgumentError(f"a payload is bytes or a buffer, not a {type(payload).__name__}") from error
    if wire_ids is not None and wire_id not in wire_ids:
        known = ", ".join(sorted(wire_ids)) if isinstance(wire_ids, Collection) else repr(wire_ids)
        raise PayloadError(f"the payload has the wire id {wire_id!r}; expected {known}")
    return _plan(wire_id, dtype, shape), body


def _require_at_most(max_bytes: int, plan: _Plan, body: NDArray[np.uint8]) -> None:
    limit = plain(max_bytes)
    if not isinstance(limit, int | float) or math.isnan(limit):
        raise ArgumentError(f"max_bytes is {max_bytes!r}; it must be a number")
    size = plan.array_bytes
    needed = size if size > max_bytes else plan.reader.peak_bytes(body, plan)
    if needed > max_bytes:
        spec = plan.spec
        raise PayloadError(
            f"the payload stands for {spec.dtype}{list(spec.shape)}, {size} bytes, and takes up to {needed} "
            f"to decode; max_bytes is {max_bytes}; raise it, or pass out="
        )


def _read(plan: _Plan, body: NDArray[np.uint8], place: NDArray[Any] | None) -> Received:
    before = donation.result_place.set(place) if plan.reader.dense else None
    try:
        return plan.reader.read(body, plan)
    except (ArgumentError, ConfigError) as error:  # that what the bytes say cannot be, they are to blame for
        raise PayloadError(f"a payload with the wire id {plan.wire_id!r} cannot be read: {error}") from error
    finally:
        if before is not None:
            donation.result_place.reset(before)


class _Reader(Protocol):
    """Reads the bodies of one wire id."""

    dense: bool
    """Whether what it returns are all elements, and not some with their indices."""

    def read(self, body: NDArray[np.uint8], plan: _Plan) -> Received:
        """What a body stands for; every byte is untrusted."""

    def peak_bytes(self, body: NDArray[np.uint8], plan: _Plan) -> int:
        """The most memory that decoding it into a new array takes at a time, that array included."""


class _EncoderReader:
    """Bodies of an encoder that is no pipeline."""

    dense = True

    def __init__(self, encoder: type[Encoder]) -> None:
        self._encoder = encoder

    def read(self, body: NDArray[np.uint8], plan: _Plan) -> Received:
        spec = plan.spec
        encoder = self._encoder.from_payload(body, spec)
        values = encoder.decode(encoder.from_wire(body, spec), spec)
        return Received(spec, np.reshape(values, -1), None)

    def peak_bytes(self, body: NDArray[np.uint8], plan: _Plan) -> int:
        spec, copies = plan.spec, self._encoder.decode_copies
        wide = int(ops.wide_dtype(spec.dtype).itemsize) if copies else 0
        return plan.array_bytes + copies * (plan.size * wide + body.size)


class _DenseReader:
    """Bodies that are a quantizer's bytes, entropy-coded perhaps."""

    dense = True

    def __init__(self, quantizer: type[Quantizer], entropy_coder: type[EntropyCoder] | None) -> None:
        self._quantizer, self._entropy_coder = quantizer, entropy_coder
        self._symbol_bytes = 0
        if entropy_coder is not None:
            trits = entropy_coder.takes_trits and _is_of_trits(quantizer)
            self._symbol_bytes = _TRIT_SYMBOL_BYTES if trits else _SYMBOL_BYTES
        self._same: Quantizer | ValueCoder | None = None
        if _always_the_same(quantizer) and _always_the_same(entropy_coder):
            self._same = self._coder_of(np.zeros(0, np.uint8))

    def read(self, body: NDArray[np.uint8], plan: _Plan) -> Received:
        return Received(plan.spec, self.values(body, plan.size, plan.spec.dtype), None)

    def peak_bytes(self, body: NDArray[np.uint8], plan: _Plan) -> int:
        return plan.size * self.bytes_of_a_value(plan.spec.dtype)

    def bytes_of_a_value(self, dtype: np.dtype[Any]) -> int:
        """The most bytes for a value while a body is decoded, the value included."""
        return int(dtype.itemsize) + self._symbol_bytes

    def values(self, code: NDArray[np.uint8], count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """So many values."""
        coder = self._same or self._coder_of(code)
        values: NDArray[Any] = coder.decode(code, count, dtype)
        return values

    def _coder_of(self, code: NDArray[np.uint8]) -> Quantizer | ValueCoder:
        quantizer = self._quantizer.from_payload(code)
        if self._entropy_coder is None:
            return quantizer
        if quantizer.symbols(0, DTYPES["float32"]) is None:
            raise PayloadError(f"{quantizer.wire_id} has no symbols that could have been entropy-coded")
        return ValueCoder(quantizer, self._entropy_coder.from_payload(code))


class _SparseReader:
    """Bodies of entries and their places."""

    dense = False

    def __init__(self, values: _DenseReader, index_coder: type[IndexCoder]) -> None:
        self._values, self._index_coder = values, index_coder
        self._same = _always_the_same(index_coder) and index_coder.from_payload(np.zeros(0, np.uint8))

    def read(self, body: NDArray[np.uint8], plan: _Plan) -> Received:
        count, index_code, code = kernels.split_sparse_body(body, plan.size)
        values = self._values.values(code, count, plan.spec.dtype)
        index_coder = self._same or self._index_coder.from_payload(index_code)
        return Received(plan.spec, values, index_coder.decode(index_code, count, plan.size))

    def peak_bytes(self, body: NDArray[np.uint8], plan: _Plan) -> int:
        count, _, _ = kernels.split_sparse_body(body, plan.size)
        return plan.array_bytes + count * (self._values.bytes_of_a_value(plan.spec.dtype) + _INDEX_BYTES)


class _RawEntriesReader:
    """The same where values are uncompressed, and the indices in a code of the kernels: one call for both."""

    dense = False

    def __init__(self, form: IndexForm) -> None:
        self._form = form

    def read(self, body: NDArray[np.uint8], plan: _Plan) -> Received:
        spec = plan.spec
        values, indices = kernels.read_entries(body, plan.size, spec.dtype, form=self._form)
        return Received(spec, values, indices)

    def peak_bytes(self, body: NDArray[np.uint8], plan: _Plan) -> int:
        count, _, _ = kernels.split_sparse_body(body, plan.size)
        return plan.array_bytes + count * (int(plan.spec.dtype.itemsize) + _INDEX_BYTES)


class _Plan(NamedTuple):
    """How payloads of one header are read."""

    wire_id: str
    spec: ArraySpec
    size: int
    reader: _Reader

    @property
    def array_bytes(self) -> int:
        """The size of the array."""
        return self.size * int(self.spec.dtype.itemsize)


@functools.lru_cache(maxsize=1024)
def _plan(wire_id: str, dtype: str, shape: tuple[int, ...]) -> _Plan:
    """What follows from a header alone, so once for all payloads of one array.

    Raises:
        PayloadError: No array has this shape, or nothing that is installed reads such payloads.
    """
    spec = ArraySpec(shape, DTYPES[dtype])
    if 0 in shape and math.prod(filter(None, shape)) * spec.dtype.itemsize > sys.maxsize:
        raise PayloadError(f"the payload is of shape {list(shape)}, which no array can have, empty or not")
    if wire_id != Identity.wire_id and not ops.is_floating(spec.dtype):
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which is for floats, not {spec.dtype}")
    return _Plan(wire_id, spec, ops.num_elements(spec), _reader(wire_id))


def _always_the_same(stage: type[CodedStage] | None) -> bool:
    """Whether it takes nothing from the bytes: its `from_payload` is that of the contract."""
    return stage is None or stage.from_payload.__func__ is CodedStage.from_payload.__func__  # type: ignore[attr-defined]


def _is_of_trits(quantizer: type[Quantizer]) -> bool:
    if not _always_the_same(quantizer):
        return False
    symbols = quantizer.from_payload(np.zeros(0, np.uint8)).symbols(0, DTYPES["float32"])
    return symbols is not None and symbols.trits > 0


@functools.lru_cache(maxsize=256)
def _reader(wire_id: str) -> _Reader:
    """What reads payloads of this wire id.

    Raises:
        PayloadError: Nothing that is installed does.
    """
    sparse = wire_id.split("+")[0] == _SPARSE
    parts = wire_id.split("+")[sparse:]
    classes = [_class_of(part, wire_id) for part in parts]
    if not sparse and len(classes) == 1 and issubclass(classes[0], Encoder):
        return _EncoderReader(classes[0])
    roles = (Quantizer, EntropyCoder, IndexCoder)[: 3 if sparse else 2]
    found: dict[type, Any] = {}
    for role in roles:
        if classes and issubclass(classes[0], role):
            found[role] = classes.pop(0)
    if sparse:
        found.setdefault(Quantizer, _class_of(DEFAULT_QUANTIZER.wire_id, wire_id))
        found.setdefault(IndexCoder, _class_of(DEFAULT_INDEX_CODER.wire_id, wire_id))
    if classes or Quantizer not in found or (sparse and not _DEFAULTS.isdisjoint(parts)):
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which nothing that is installed writes")
    values = _DenseReader(found[Quantizer], found.get(EntropyCoder))
    if not sparse:
        return values
    form = found[IndexCoder].kernel_form
    if form is not None and found[Quantizer].uncompressed and EntropyCoder not in found:
        return _RawEntriesReader(form)
    return _SparseReader(values, found[IndexCoder])


def _own_wire_ids() -> frozenset[str]:
    """The wire ids of single stages and encoders of fedplug itself."""
    own = (entry.spec for entry in catalog().entries if entry.builtin and entry.status == "ok")
    return frozenset(spec.wire_id for spec in own if isinstance(spec, EncoderSpec) and spec.wire_id)


def _class_of(part: str, wire_id: str) -> type:
    for entry in catalog().entries:
        spec = entry.spec
        if isinstance(spec, EncoderSpec) and spec.wire_id == part and entry.status == "ok":
            if "numpy" not in spec.executes_on:
                raise PayloadError(
                    f"the payload has the wire id {wire_id!r}, and {spec.name!r}, which writes {part!r}, "
                    "executes in TensorFlow only"
                )
            return spec.resolve()
    raise PayloadError(
        f"the payload has the wire id {wire_id!r}, and nothing that is installed reads {part!r}; "
        "install the plugin that wrote it (`fedplug plugins list` shows what there is)"
    )
