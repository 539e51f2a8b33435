"""Finds the reader of the payloads of a wire id, without a configuration.

A wire id names an encoder, or the stages of a pipeline, by the wire ids that plugins declare
(`EncoderSpec.wire_id`). Parameters such as bits, block sizes and seeds are read from the untrusted bytes, see
`Encoder.from_payload`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Container
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.codecs.arrays import DTYPES
from fedplug.encoders.base import Encoder
from fedplug.encoders.pipeline.stage_order import DEFAULT_INDEX_CODER, DEFAULT_QUANTIZER
from fedplug.encoders.pipeline.value_coder import BodyForm, ValueCoder
from fedplug.encoders.quantizers import Identity
from fedplug.encoders.stages import CodedStage, EntropyCoder, IndexCoder, Quantizer
from fedplug.errors import PayloadError, PluginError
from fedplug.ops.types import ArraySpec, PackedValues
from fedplug.ops.wide_symbols import BYTE_BITS
from fedplug.registry.resolve import catalog
from fedplug.registry.specs import EncoderSpec

__all__ = ["BUILT_IN", "PayloadReader", "WireIds", "reader_of", "require_readable", "value_coder_of"]

WireIds: TypeAlias = Container[str] | None
"""The wire ids that a receiver expects. None for those of all installed encoders."""

_Stage = TypeVar("_Stage", bound=CodedStage)

_READS = ("decode", "from_wire")
"""The methods that read the bytes of an encoder or a stage."""

_INDEX_BYTES = 5
_SYMBOL_BYTES = 2
_WIDE_SYMBOL_BYTES = 6
"""Temporary bytes per value while decoding: for its index, its symbol, and a symbol of two parts."""

_WIDE_INDEX_BYTES = 8


class _BuiltIn(Container[str]):
    """The wire ids that fedplug's own encoders and pipelines write."""

    def __contains__(self, wire_id: object) -> bool:
        return {*str(wire_id).split("+")} <= _own_wire_ids() | {BodyForm.SPARSE}

    def __repr__(self) -> str:
        return "the wire ids of fedplug's own encoders"


BUILT_IN = _BuiltIn()
"""The wire ids of fedplug's own encoders: for a server that does not know which encoder its clients use."""


class PayloadReader:
    """Reads the bytes of one wire id. Every byte is untrusted.

    Attributes:
        sparse: Whether it returns the entries that were sent with their indices, and not all elements.
    """

    sparse = False

    def entries(
        self, body: NDArray[np.uint8], spec: ArraySpec, size: int
    ) -> tuple[NDArray[np.generic], NDArray[np.int32] | None]:
        """Returns the values and indices that the bytes represent. See `BodyForm.entries`."""
        raise NotImplementedError

    def packed(self, body: NDArray[np.uint8], spec: ArraySpec, size: int) -> PackedValues | None:
        """Returns the values of a dense payload as a device decodes them. None if it cannot."""
        return None

    def peak_bytes(self, body: NDArray[np.uint8], spec: ArraySpec, size: int) -> int:
        """Returns the most memory that decoding into a new array takes at a time, with that array."""
        raise NotImplementedError


class _EncoderReader(PayloadReader):
    """Reads the bytes of an encoder that is not a pipeline."""

    def __init__(self, encoder: type[Encoder]) -> None:
        self._encoder = encoder

    def entries(
        self, body: NDArray[np.uint8], spec: ArraySpec, size: int
    ) -> tuple[NDArray[np.generic], NDArray[np.int32] | None]:
        encoder = self._encoder.from_payload(body, spec)
        return np.reshape(encoder.decode(encoder.from_wire(body, spec), spec), -1), None

    def peak_bytes(self, body: NDArray[np.uint8], spec: ArraySpec, size: int) -> int:
        copies = self._encoder.from_payload(body, spec).capabilities.decode_copies
        wide = int(ops.wide_dtype(spec.dtype).itemsize)
        return size * int(spec.dtype.itemsize) + copies * (size * wide + body.size)


class _PipelineReader(PayloadReader):
    """Reads the bytes of a pipeline. Stages that read nothing from the bytes are made once."""

    def __init__(
        self,
        quantizer: type[Quantizer],
        entropy_coder: type[EntropyCoder] | None,
        index_coder: type[IndexCoder] | None,
    ) -> None:
        self._quantizer, self._entropy_coder, self._index_coder = quantizer, entropy_coder, index_coder
        self.sparse = index_coder is not None
        values, indices = _same_for_all(quantizer), _same_for_all(index_coder)
        self._same_quantizer, self._same_index_coder = values, indices
        is_fused = entropy_coder is None and values is not None and values.uncompressed
        self._form = indices.kernel_form if indices is not None and is_fused else None

    def entries(
        self, body: NDArray[np.uint8], spec: ArraySpec, size: int
    ) -> tuple[NDArray[np.generic], NDArray[np.int32] | None]:
        if self._form is not None:
            return kernels.read_entries(body, size, spec.dtype, form=self._form)
        count, code = size, body
        if self.sparse:
            count, index_code, code = kernels.split_sparse_body(body, size)
        if self._entropy_coder is None:
            quantizer = self._same_quantizer or self._quantizer.from_payload(code)
            values = quantizer.decode(code, count, spec.dtype)
        else:
            values = self.value_coder(code).decode(code, count, spec.dtype)
        if self._index_coder is None:
            return np.asarray(values), None
        coder = self._same_index_coder or self._index_coder.from_payload(index_code)
        return np.asarray(values), np.asarray(coder.decode(index_code, count, size))

    def packed(self, body: NDArray[np.uint8], spec: ArraySpec, size: int) -> PackedValues | None:
        return None if self.sparse else self.value_coder(body).packed(body, size, spec.dtype)

    def peak_bytes(self, body: NDArray[np.uint8], spec: ArraySpec, size: int) -> int:
        count, code = size, body
        itemsize, wide = int(spec.dtype.itemsize), int(ops.wide_dtype(spec.dtype).itemsize)
        peak = 0
        if self._index_coder is not None:
            count, index_code, code = kernels.split_sparse_body(body, size)
            copies = self._index_coder.from_payload(index_code).capabilities.decode_copies
            peak = size * itemsize + count * (_INDEX_BYTES + copies * _WIDE_INDEX_BYTES)
        values = self.value_coder(code)
        if values.entropy_coder is not None:
            symbols = values.quantizer.symbols(count, spec.dtype)
            assert symbols is not None  # `value_coder` has seen it
            more = _WIDE_SYMBOL_BYTES if symbols.bits > BYTE_BITS else 0
            peak += int(symbols.number) * (_SYMBOL_BYTES + more) + body.size
        return peak + count * (itemsize + values.capabilities.decode_copies * wide)

    def value_coder(self, code: NDArray[np.uint8]) -> ValueCoder:
        """Returns the coder of the values in the untrusted bytes."""
        coder = None if self._entropy_coder is None else self._entropy_coder.from_payload(code)
        values = ValueCoder(self._quantizer.from_payload(code), coder)
        if coder is not None and values.quantizer.symbols(0, DTYPES["float32"]) is None:
            raise PayloadError(f"{self._quantizer.wire_id} has no symbols that could have been entropy-coded")
        return values


def _same_for_all(stage: type[_Stage] | None) -> _Stage | None:
    """Returns the stage if it reads nothing from the bytes: its `from_payload` is that of the contract."""
    if stage is None or stage.from_payload.__func__ is not CodedStage.from_payload.__func__:  # type: ignore[attr-defined]
        return None
    return stage.from_payload(np.zeros(0, np.uint8))


@functools.lru_cache(maxsize=256)
def reader_of(wire_id: str) -> PayloadReader:
    """Returns the reader of the payloads with this wire id.

    Raises:
        PayloadError: No installed encoder reads them.
    """
    sparse = wire_id.split("+")[0] == BodyForm.SPARSE
    parts = wire_id.split("+")[sparse:]
    classes = [_class_of(part, wire_id) for part in parts]
    if not sparse and classes == [Identity]:
        return _PipelineReader(type(DEFAULT_QUANTIZER), None, None)
    if not sparse and len(classes) == 1 and issubclass(classes[0], Encoder):
        return _EncoderReader(classes[0])
    found: dict[type, Any] = {}
    for role in (Quantizer, EntropyCoder, IndexCoder)[: 3 if sparse else 2]:
        if classes and issubclass(classes[0], role):
            found[role] = classes.pop(0)
    if sparse:
        found.setdefault(Quantizer, type(DEFAULT_QUANTIZER))
        found.setdefault(IndexCoder, type(DEFAULT_INDEX_CODER))
    defaults = {DEFAULT_QUANTIZER.wire_id, DEFAULT_INDEX_CODER.wire_id}
    if classes or Quantizer not in found or (sparse and not defaults.isdisjoint(parts)):
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which no installed encoder writes")
    return _PipelineReader(found[Quantizer], found.get(EntropyCoder), found.get(IndexCoder))


def value_coder_of(wire_id: str, code: NDArray[np.uint8]) -> ValueCoder:
    """Returns the coder of the values of whole arrays whose entries have symbols of their own.

    Args:
        wire_id: The wire id of payloads of the whole array.
        code: The untrusted bytes of the values, or of some of them.

    Raises:
        PayloadError: No installed encoder reads them, or their entries have no symbols of their own.
    """
    reader = reader_of(wire_id)
    if isinstance(reader, _PipelineReader) and not reader.sparse:
        values = reader.value_coder(code)
        if values.has_symbols:
            return values
    raise PayloadError(f"single entries cannot be read from a payload with the wire id {wire_id!r}")


def _own_wire_ids() -> frozenset[str]:
    """Returns the wire ids of fedplug's own encoders and stages."""
    own = (entry.wire_id for entry in catalog().entries if entry.builtin and entry.status == "ok")
    return frozenset(filter(None, own))


def require_readable(encoder: Encoder) -> None:
    """Checks that `decode` does not read the payloads of an encoder with the class of another one.

    Raises:
        PluginError: An installed encoder declares a wire id of this encoder, and decodes differently.
    """
    for part in getattr(encoder, "stages", (encoder,)):
        own = type(part)
        if own is type(DEFAULT_QUANTIZER):  # it writes the bytes of `Identity`
            continue
        wire_id = inspect.getattr_static(own, "wire_id", None)
        spec = next((e.spec for e in catalog().entries if e.status == "ok" and e.wire_id == wire_id), None)
        if not isinstance(wire_id, str) or not isinstance(spec, EncoderSpec):
            continue
        reader = spec.resolve()
        if any(getattr(own, name, None) is not getattr(reader, name, None) for name in _READS):
            raise PluginError(
                f"{own.__module__}.{own.__qualname__} has the wire id {wire_id!r} of {spec.target}, which "
                "would decode its payloads; give it a wire id of its own, and declare it in a plugin"
            )


def _class_of(part: str, wire_id: str) -> type:
    problem = "install the plugin that wrote it (`fedplug plugins list` shows what is installed)"
    for entry in catalog().entries:
        spec = entry.spec
        if not isinstance(spec, EncoderSpec) or spec.wire_id != part:
            continue
        if entry.status != "ok":
            problem = f"{entry.reason}: {entry.fix}"
        elif "numpy" not in spec.executes_on:
            raise PayloadError(
                f"the payload has the wire id {wire_id!r}, and {spec.name!r}, which writes {part!r}, "
                "executes in TensorFlow only"
            )
        else:
            return spec.resolve()
    raise PayloadError(
        f"the payload has the wire id {wire_id!r}, and no installed encoder reads {part!r}; {problem}"
    )
