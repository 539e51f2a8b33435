"""The bytes of a pipeline's payload: the same reader for codecs and for processes."""

from __future__ import annotations

from typing import ClassVar

import fedplug.ops as ops
from fedplug.encoders.base import BodyParts, Payload
from fedplug.encoders.pipeline.stage_order import DEFAULT_INDEX_CODER, DEFAULT_QUANTIZER
from fedplug.encoders.pipeline.value_coder import ValueCoder
from fedplug.encoders.stages import IndexCoder
from fedplug.ops.types import Array, Spec

__all__ = ["BodyForm"]


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
