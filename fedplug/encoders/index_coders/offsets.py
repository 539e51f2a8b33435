"""An index coder of a fixed width, for selections from chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedplug import ops, wire
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.stages import IndexCoder
from fedplug.errors import PayloadError
from fedplug.ops.types import Array
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Offsets"]

_HEADER_BYTES = 4


class Offsets(IndexCoder):
    """Writes every index as its offset within its chunk: ``bits(chunk - 1)`` bits per index.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    >>> codec = fedplug.codec("topk(count=64, chunk=4096) | codebook(2) | offsets(4096)")
    >>> len(codec.encode(x)[0]), len(codec.encode(x**3)[0])
    (2878, 2878)

    The size of the code depends on the number of indices only. So payloads of a chunked top-k with a
    quantizer of fixed size have a size that follows from the shape, and a collective can send them without
    exchanging sizes first. The sparsifier must select equally many entries from each chunk of this length,
    and all entries of a last chunk that is too short.

    Layout: uint32 chunk, little-endian; one offset after the other, its lowest bit first, eight bits per
    byte; unused bits are 0. The number of entries per chunk follows from the number of all.
    """

    name: ClassVar[str] = "offsets"
    wire_id: ClassVar[str] = "offsets/1"

    def __init__(self, chunk: int = 4096) -> None:
        """Makes the coder; ``chunk`` is that of the sparsifier, at least 2, or a ConfigError is raised."""
        check_whole("offsets chunk", chunk, 2, wire.MAX_ELEMENTS)
        self._chunk = chunk

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the chunk from the start of the code."""
        chunk = int.from_bytes(np.asarray(code)[:_HEADER_BYTES].tobytes(), "little")
        if code.size < _HEADER_BYTES or not 2 <= chunk <= wire.MAX_ELEMENTS:
            raise PayloadError("a code of offsets does not say its chunk, or not 2 to 2^31 - 1")
        return cls(chunk)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, fixed_size=True, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, Any]:
        return {"chunk": self._chunk}

    def encode(self, indices: Array, size: int, round_num: Array) -> Array:
        """Refuses indices of which chunks do not have equally many."""
        del round_num
        indices = ops.astype(indices, "int64")
        starts = self._starts(ops.size(indices), size)
        inside = ops.all((indices >= starts) & (indices < starts + self._chunk))
        with ops.require(
            inside, f"indices are not equally many of each chunk of {self._chunk}; select with this chunk"
        ):
            offsets = indices - starts
        bits = [ops.astype(offsets // 2**place % 2, "uint8") for place in range(self._width)]
        header = ops.to_bytes(self._header(like=indices))
        return ops.concat([header, ops.pack(ops.reshape(ops.stack(bits, axis=1), [-1]), 1)])

    def decode(self, code: Array, count: Array, size: int) -> Array:
        """Refuses another chunk, length or number of indices, and offsets that do not ascend in a chunk."""
        header, packed = code[:_HEADER_BYTES], code[_HEADER_BYTES:]
        header = ops.of_length(header, _HEADER_BYTES, "the chunk of offsets")
        count = ops.astype(count, "int64")
        bits = ops.unpack(packed, count * self._width, 1, "the offsets of indices")
        columns = ops.reshape(ops.astype(bits, "int64"), [-1, self._width])
        offsets = sum(columns[:, place] * 2**place for place in range(self._width))
        indices = self._starts(count, size) + offsets
        valid = ops.all(ops.from_bytes(header, "int32") == self._chunk)
        valid &= ops.all(offsets < self._chunk) & ops.all(indices < size)
        valid &= ops.all(indices[1:] > indices[:-1])
        with ops.require(valid, f"the offsets of indices are not those in chunks of {self._chunk}"):
            return ops.astype(indices, "int32")

    @property
    def _width(self) -> int:
        return (self._chunk - 1).bit_length()

    def _header(self, like: Array) -> Array:
        return ops.astype(ops.stack([ops.asarray(self._chunk, like=like)]), "int32")

    def _starts(self, count: Array, size: int) -> Array:
        """Returns the start of each entry's chunk, ``[count]`` int64; refuses other counts than of chunks."""
        whole, rest = divmod(size, self._chunk)
        count = ops.astype(count, "int64")
        each = count
        if whole:  # count = min((whole + 1) each, whole each + rest)
            each = ops.maximum(count // (whole + 1), (count - rest) // whole)
            expected = each * whole + ops.minimum(each, rest)
            with ops.require(
                (expected == count) & (each <= self._chunk),
                f"the number of indices is not that of equally many in each chunk of {self._chunk}",
            ):
                each = ops.identity(each)
        return ops.arange(count) // ops.maximum(each, 1) * self._chunk
