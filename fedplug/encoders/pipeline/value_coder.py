"""The bytes of a pipeline's payload: values by a quantizer and an entropy coder, and their indices."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.encoders.base import BodyParts, Payload
from fedplug.encoders.pipeline.stage_order import DEFAULT_INDEX_CODER, DEFAULT_QUANTIZER
from fedplug.encoders.quantizers import ValueFormQuantizer
from fedplug.encoders.stages import EntropyCoder, IndexCoder, PackedSymbols, Quantizer
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.spec import dtype_for
from fedplug.ops.types import Array, DType, PackedValues, Scalar, Spec
from fedplug.ops.wide_symbols import BYTE_BITS, join_wide, pack_wide, split_aside, split_wide, unpack_wide
from fedplug.registry.specs import Capabilities

__all__ = ["BodyForm", "ValueCoder"]

_SOME = 1000
_dtype = operator.attrgetter("dtype")


@dataclass(frozen=True)
class ValueCoder:
    """Writes and reads the payload ``{"value_code": uint8[...]}``, and ``"values": dtype[k]`` if known.

    With a lossless quantizer the payload has the values alone, because the code follows from them. Such
    payloads can be added before they are decoded (`Capabilities.commutes_with_sum`).

    The bytes are the quantizer's, with the code of the entropy coder instead of the packed symbols at their
    end. `fedplug.ops.wide_symbols` has the layout of a code of symbols of more than 8 bits.
    """

    quantizer: Quantizer
    entropy_coder: EntropyCoder | None = None

    @property
    def wire_id(self) -> str:
        """The wire ids of both."""
        coder = self.entropy_coder
        return self.quantizer.wire_id if coder is None else f"{self.quantizer.wire_id}+{coder.wire_id}"

    @functools.cached_property
    def is_wide(self) -> bool:
        """Whether symbols have more than 8 bits: `fedplug.ops.wide_symbols` takes NumPy arrays only."""
        return self._some_symbols is not None and self._some_symbols.bits > BYTE_BITS

    @property
    def uncompressed(self) -> bool:
        """Whether the bytes are the values as they lie in memory."""
        return self.quantizer.uncompressed and self.entropy_coder is None

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the quantizer. The entropy coder is lossless."""
        return self.quantizer.capabilities

    @functools.cached_property
    def lossless(self) -> bool:
        """Whether a receiver gets the values unchanged."""
        return self.quantizer.capabilities.lossless

    @functools.cached_property
    def kernel_quantizer(self) -> ValueFormQuantizer | None:
        """The quantizer if kernels quantize whole lists by its form, and write containers; else None."""
        return self.quantizer if isinstance(self.quantizer, ValueFormQuantizer) else None

    def payload(self, values: Array, round_num: Scalar, *, known: bool) -> Payload:
        """Returns the payload of a vector; with ``known`` it has the values that a receiver gets."""
        if self.lossless:
            return {"values": values}
        code = self.quantizer.encode(values, round_num)
        payload = {"value_code": self.coded(code, ops.size(values), values.dtype)}
        if not known:
            return payload
        return {**payload, "values": self.quantizer.decode(code, ops.size(values), values.dtype)}

    def quantize_each(
        self,
        values: Sequence[NDArray[np.generic]],
        round_num: int,
        exact: Sequence[NDArray[np.generic]] | None,
    ) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.generic]]]:
        """Returns the quantizer's bytes of several vectors, and their errors.

        Args:
            values: The vectors, finite.
            round_num: The round number.
            exact: The vectors before they were rounded to the dtype of ``values``. None if errors are not
                needed.

        Returns:
            The bytes of each vector, and ``exact`` minus the decoded values. Without ``exact`` an empty list.
        """
        if self.kernel_quantizer is not None and len(set(map(_dtype, values))) == 1:
            return self.kernel_quantizer.encode_each(values, round_num, exact)
        codes = [np.asarray(self.quantizer.encode(each, round_num)) for each in values]
        lost = []
        with sums_may_overflow():
            for code, each, whole in zip(codes, values, exact or (), strict=exact is not None):
                lost.append(whole - ops.widened(self.quantizer.decode(code, each.size, each.dtype)))
        return codes, lost

    def values_of(self, payload: Payload, count: Array | int, dtype: DType) -> Array:
        """Returns the values that a receiver gets, a vector."""
        if "values" in payload:
            return payload["values"]
        return self.decode(payload["value_code"], count, dtype)

    def to_bytes(self, payload: Payload) -> Array:
        if not self.lossless:
            return payload["value_code"]
        values = payload["values"]
        return self.coded(self.quantizer.encode(values, 0), ops.size(values), values.dtype)

    def from_bytes(self, data: Array, count: Array | int, dtype: DType) -> Payload:
        """Returns the payload of ``count`` values. Refuses as entropy coder and quantizer do."""
        values = self.decode(data, count, dtype)
        return {"values": values} if self.lossless else {"values": values, "value_code": data}

    def decode(self, data: Array, count: Array | int, dtype: DType) -> Array:
        """Returns the values in the bytes."""
        code = data if self.entropy_coder is None else self._restored(data, count, dtype)
        return self.quantizer.decode(code, count, dtype)

    def packed(self, data: NDArray[np.generic], count: int, dtype: DType) -> PackedValues | None:
        """Returns the checked code of the quantizer if a device can decode it; else None."""
        if self.kernel_quantizer is None or "cuda" not in self.capabilities.executes_on:
            return None
        return self.kernel_quantizer.packed(np.asarray(self._restored(data, count, dtype)), count, dtype)

    def entropy_bytes(self, data: Array, count: Array | int, dtype: DType) -> Array:
        """Returns the size that an ideal entropy coder would reach for ``count`` values; a float64 scalar.

        It is the empirical entropy of the quantizer's symbols and the size of the bytes before them. Without
        symbols it is the size of all bytes.
        """
        code = self._restored(data, count, dtype)
        symbols = self.quantizer.symbols(count, dtype)
        if symbols is None:
            return ops.astype(ops.size(code), "float64")
        start, number, bits = symbols
        return ops.astype(start, "float64") + ops.symbol_bits(code[start:], number, bits) / 8

    @property
    def has_symbols(self) -> bool:
        """Whether every value has a symbol of its own, so that a code has parts."""
        return self._some_symbols is not None and bool(self._some_symbols.number == _SOME)

    @functools.cached_property
    def _some_symbols(self) -> PackedSymbols | None:
        return self.quantizer.symbols(_SOME, dtype_for(self.capabilities.executes_on, "float32"))

    def part(self, data: Array, places: Array, count: Array | int, dtype: DType) -> Array:
        """Returns the code of some of the values: the bytes before the symbols, and their symbols.

        Args:
            data: The code of all values.
            places: The indices of the values, ascending. An int32 vector.
            count: Number of all values.
            dtype: The dtype of the values.
        """
        code = self._restored(data, count, dtype)
        start, number, bits = self.symbols(count, dtype)
        packed = _packed(ops.take(_unpacked(code[start:], number, bits), places), bits)
        return ops.concat([code[:start], self._coded(packed, ops.size(places), bits)])

    def with_part(self, part: Array, places: Array, count: Array | int, dtype: DType) -> Array:
        """Returns ``count`` values: those at ``places`` from a `part`, the others undefined."""
        start, number, bits = self.symbols(count, dtype)
        with ops.require(
            ops.size(part) >= start, f"a part of a {self.wire_id} payload is too short for its head"
        ):
            head, packed = part[:start], part[start:]
        symbols = _unpacked(self._symbols_in(packed, ops.size(places), bits), ops.size(places), bits)
        spread = ops.scatter_decode(number, ops.astype(symbols, "float32"), places)
        packed = _packed(ops.astype(spread, "int32"), bits)
        return self.quantizer.decode(ops.concat([head, packed]), count, dtype)

    def coded(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Returns the quantizer's bytes of ``count`` values as they are sent."""
        if self.entropy_coder is None:
            return code
        return self.shortened(code, self.symbols(count, dtype))

    def shortened(self, code: Array, symbols: PackedSymbols) -> Array:
        """Returns the bytes of a quantizer with the entropy coder's code instead of these symbols."""
        start, number, bits = symbols
        return ops.concat([code[:start], self._coded(code[start:], number, bits)])

    def _restored(self, data: Array, count: Array | int, dtype: DType) -> Array:
        if self.entropy_coder is None:
            return data
        start, number, bits = self.symbols(count, dtype)
        with ops.require(
            ops.size(data) >= start,
            f"a {self.wire_id} payload is too short for what comes before its symbols",
        ):
            head, code = data[:start], data[start:]
        return ops.concat([head, self._symbols_in(code, number, bits)])

    def _coded(self, packed: Array, number: Array | int, bits: int) -> Array:
        if self.entropy_coder is None:
            return packed
        if bits <= BYTE_BITS:
            return self.entropy_coder.encode(packed, number, bits)
        aside, symbols = split_wide(packed, number, bits)
        return ops.concat([aside, self.entropy_coder.encode(symbols, number, BYTE_BITS)])

    def _symbols_in(self, code: Array, number: Array | int, bits: int) -> Array:
        if self.entropy_coder is None:
            return code
        if bits <= BYTE_BITS:
            return self.entropy_coder.decode(code, number, bits)
        aside, code = split_aside(code, number, bits)
        return join_wide(aside, self.entropy_coder.decode(code, number, BYTE_BITS), number, bits)

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the quantizer's bytes hold symbols. There must be an entropy coder."""
        found = self.quantizer.symbols(count, dtype)
        assert found is not None  # `arrange` has seen it
        return found


def _packed(symbols: Array, bits: int) -> Array:
    return pack_wide(symbols, bits) if bits > BYTE_BITS else ops.pack(ops.astype(symbols, "uint8"), bits)


def _unpacked(packed: Array, number: Array | int, bits: int) -> Array:
    if bits > BYTE_BITS:
        return unpack_wide(packed, number, bits)
    return ops.unpack(packed, number, bits, "the symbols of a quantizer")


class BodyForm:
    """Writes and reads the bytes of a pipeline's payload.

    If all entries are sent, the bytes are those of the values. Otherwise they are a sparse body
    (docs/wire-format.md), and the wire id begins with ``"sparse/1"``.

    Attributes:
        values: The coder of the values.
        index_coder: The coder of the indices. None if all entries are sent.
    """

    SPARSE: ClassVar[str] = "sparse/1"

    def __init__(self, values: ValueCoder, index_coder: IndexCoder | None) -> None:
        self.values = values
        self.index_coder = index_coder

    @property
    def wire_id(self) -> str:
        """``"sparse/1"`` and the wire ids of all stages but the defaults, or the wire id of the values."""
        if self.index_coder is None:
            return self.values.wire_id
        ids = [self.SPARSE, self.values.wire_id, self.index_coder.wire_id]
        return "+".join(each for each in ids if each not in _DEFAULTS)

    def to_wire(self, payload: Payload) -> Array:
        """See `Encoder.to_wire`."""
        code = self.values.to_bytes(payload)
        if self.index_coder is None:
            return code
        return ops.sparse_body(ops.size(payload["indices"]), payload["index_code"], code)

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """See `Encoder.from_wire`. Refuses bytes of another form, and the bytes that a stage refuses."""
        size = ops.num_elements(spec)
        if self.index_coder is None:
            return self.values.from_bytes(body, size, spec.dtype)
        count, index_code, code = ops.split_sparse_body(body, size)
        return {
            **self.values.from_bytes(code, count, spec.dtype),
            "indices": self.index_coder.decode(index_code, count, size),
            "index_code": index_code,
        }

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """See `Encoder.decode`: the values at their indices, zeros elsewhere."""
        size = ops.num_elements(spec)
        if self.index_coder is None:
            return ops.reshape(self.values.values_of(payload, size, spec.dtype), spec.shape)
        values = self.values.values_of(payload, ops.size(payload["indices"]), spec.dtype)
        return ops.reshape(ops.scatter_decode(size, values, payload["indices"]), spec.shape)

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        """See `Measured.body_parts`.

        The bound counts all sets of as many entries, and the entropy of the values' symbols. Indices that
        both sides draw from a seed have the bound 0.
        """
        size = ops.num_elements(spec)
        if self.index_coder is None:
            return BodyParts(0, ops.size(body), self.values.entropy_bytes(body, size, spec.dtype))
        count, index_code, code = ops.split_sparse_body(body, size)
        bound = self.values.entropy_bytes(code, count, spec.dtype)
        if not self.index_coder.capabilities.needs_seed:
            bound = bound + ops.subset_bits(count, size) / 8
        return BodyParts(ops.size(index_code), ops.size(code), bound)


_DEFAULTS = {DEFAULT_QUANTIZER.wire_id, DEFAULT_INDEX_CODER.wire_id}
"""The wire ids that the wire id of a sparse payload leaves out."""
