"""An index coder of a fixed width, for selections from chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import fedplug.wire as wire
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.stages import IndexCoder
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, Scalar
from fedplug.registry.specs import Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Offsets"]

_HEADER_BYTES = 4
_BLOCK = 2**13
"""Number of offsets that are written or read at a time; a multiple of 8, so that each block begins a byte."""


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
    and all entries of a last chunk that is too short. It takes NumPy arrays only.

    Wire form "offsets/1": see docs/wire-format.md. The number of entries per chunk follows from the number of
    all.
    """

    name: ClassVar[str] = "offsets"
    wire_id: ClassVar[str] = "offsets/1"

    def __init__(self, chunk: int = 4096) -> None:
        """Makes the coder. ``chunk`` is that of the sparsifier, at least 2, or a ConfigError is raised."""
        check_whole("offsets chunk", chunk, 2, wire.MAX_ELEMENTS)
        self._chunk = chunk

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the chunk from the start of the code."""
        chunk = int.from_bytes(np.asarray(code)[:_HEADER_BYTES].tobytes(), "little")
        if len(code) < _HEADER_BYTES or not 2 <= chunk <= wire.MAX_ELEMENTS:
            raise PayloadError("a code of offsets does not say its chunk, or not 2 to 2^31 - 1")
        return cls(chunk)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, fixed_size=True, decode_copies=0, executes_on=("numpy",))

    def get_config(self) -> dict[str, Any]:
        return {"chunk": self._chunk}

    def encode(self, indices: Array, size: int, round_num: Scalar) -> Array:
        """Refuses indices of which chunks do not have equally many."""
        del round_num
        offsets = np.array(indices, np.int32)
        for run, start in self._runs(offsets, size):
            run -= start
        if not self._are_offsets(offsets, size):
            raise PayloadError(
                f"indices are not equally many of each chunk of {self._chunk}; select with this chunk"
            )
        header = np.frombuffer(self._chunk.to_bytes(_HEADER_BYTES, "little"), np.uint8)
        code: Array = np.concatenate([header, _packed(offsets, self._width)])
        return code

    def decode(self, code: Array, count: Array | int, size: int) -> Array:
        """Refuses another chunk, length or number of indices, and offsets that do not ascend in a chunk."""
        array, count = np.asarray(code), int(count)
        header, packed = array[:_HEADER_BYTES], array[_HEADER_BYTES:]
        bits = count * self._width
        if header.tobytes() != self._chunk.to_bytes(_HEADER_BYTES, "little") or packed.size != -(-bits // 8):
            raise PayloadError(f"the offsets of indices are not those in chunks of {self._chunk}")
        if bits % 8 and packed[-1] >> bits % 8:
            raise PayloadError("the offsets of indices have unused bits that are set")
        offsets = _unpacked(packed, count, self._width)
        if not self._are_offsets(offsets, size):
            raise PayloadError(f"the offsets of indices are not those in chunks of {self._chunk}")
        for run, start in self._runs(offsets, size):
            run += start
        return offsets

    @property
    def _width(self) -> int:
        return (self._chunk - 1).bit_length()

    def _runs(self, entries: NDArray[np.int32], size: int) -> list[tuple[NDArray[np.int32], Any]]:
        """Returns views of the entries, ``[whole chunks, each]`` and those of the rest, and their starts.

        Raises:
            PayloadError: No number of entries of each chunk leads to this number.
        """
        whole, rest = divmod(size, self._chunk)
        count = each = entries.size
        if whole:  # count = min((whole + 1) each, whole each + rest)
            each = max(count // (whole + 1), (count - rest) // whole)
        if each > self._chunk or each * whole + min(each, rest) != count:
            raise PayloadError(
                f"the number of indices is not that of equally many in each chunk of {self._chunk}"
            )
        starts = np.arange(0, whole * self._chunk, self._chunk, dtype=np.int32)[:, None]
        end = each * whole
        return [(entries[:end].reshape(whole, each), starts), (entries[end:], whole * self._chunk)]

    def _are_offsets(self, offsets: NDArray[np.int32], size: int) -> bool:
        """Whether offsets are in their chunks and ascend there."""
        (chunks, _), (rest, _) = self._runs(offsets, size)
        for run, most in ((chunks, self._chunk), (rest, size % self._chunk)):
            if run.size and (run.min() < 0 or run.max() >= most or (run[..., 1:] <= run[..., :-1]).any()):
                return False
        return True


def _packed(numbers: NDArray[np.int32], width: int) -> NDArray[np.uint8]:
    """Returns numbers below 2^width one after the other, the lowest bit first."""
    places = np.arange(width, dtype=np.int32)
    packed = [np.zeros(0, np.uint8)]
    for begin in range(0, numbers.size, _BLOCK):
        bits = numbers[begin : begin + _BLOCK, None] >> places & 1
        packed.append(np.packbits(bits.astype(np.uint8), bitorder="little"))
    return np.concatenate(packed)


def _unpacked(packed: NDArray[np.uint8], count: int, width: int) -> NDArray[np.int32]:
    """Returns ``count`` numbers: the inverse of `_packed`."""
    numbers = np.empty(count, np.int32)
    bits = np.arange(min(count, _BLOCK)) * width
    for begin in range(0, count, _BLOCK):
        block = numbers[begin : begin + _BLOCK]
        data = packed[begin * width // 8 : -(-(begin + block.size) * width // 8)]
        data = np.concatenate([data, np.zeros(8, np.uint8)])
        words: NDArray[np.uint64] = np.ndarray(
            data.size - 7, "<u8", data, strides=(1,)
        )  # those from each byte on
        found = words[bits[: block.size] >> 3] >> (bits[: block.size] & 7).astype(np.uint64)
        block[...] = found & np.uint64((1 << width) - 1)
    return numbers
