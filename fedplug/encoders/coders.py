"""The lossless stages: index coders, and an entropy coder for the symbols of quantizers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders.arguments import check_seed, check_whole
from fedplug.encoders.stages import EntropyCoder, IndexCoder
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, IndexForm, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Gaps", "Offsets", "Rans", "Rice", "Seeded"]


class _KernelCoder(IndexCoder):
    """An index coder with an op of its own; docs/wire-format.md specifies its bytes."""

    name: ClassVar[IndexForm]
    kernel_form: ClassVar[IndexForm]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, decode_copies=0, executes_on=EXECUTIONS)

    def encode(self, indices: Array, size: int, round_num: Scalar) -> Array:
        del round_num
        return ops.encode_indices(indices, size, form=self.name)

    def decode(self, code: Array, count: Array, size: int) -> Array:
        if type(code) is np.ndarray and type(count) is int and code.dtype == np.uint8:
            return kernels.decode_indices(code, count, size, form=self.name)
        return ops.decode_indices(code, count, size, form=self.name)


class Rice(_KernelCoder):
    """Writes the gaps of indices in Rice code: about ``log2(n / k) + 1.5`` bits per index if they are random.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    >>> len(fedplug.codec("topk(0.01) | rice").encode(x)[0])
    537

    Sources: Rice & Plaunt, IEEE Trans. Commun. 1971. Golomb, IEEE Trans. Inf. Theory 1966.
    """

    name = kernel_form = "rice"
    wire_id: ClassVar[str] = "rice/1"


class Gaps(_KernelCoder):
    """Writes gaps in an adaptive binary code: the size of random sets, and less if entries are clustered.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    >>> len(fedplug.codec("topk(0.01) | gaps").encode(x)[0])
    545

    The code begins with the probabilities of random gaps and learns those of the actual gaps. A few indices
    take hardly more than ``log2 C(n, k)`` bits. Many indices of a real update take less, because its largest
    entries stand in rows and columns. Writing an index takes about 100 ns, 30 times as long as `Rice`. In
    TensorFlow it needs the compiled op.

    Sources: Moffat, Neal, Witten, "Arithmetic coding revisited", ACM Trans. Inf. Syst. 1998. Marpe, Schwarz,
    Wiegand, "Context-based adaptive binary arithmetic coding", IEEE Trans. Circuits Syst. Video Technol.
    2003. Duda, arXiv 1311.2540.
    """

    name = kernel_form = "gaps"
    wire_id: ClassVar[str] = "gaps/1"

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, needs_op_library=True)


_CODE_BYTES = 8


class Seeded(IndexCoder):
    """Sends the seed and round from which `RandomK` draws its indices, instead of the indices: 8 bytes.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("randomk(0.01, seed=1)").encode(np.ones(10_000, np.float32))
    >>> len(payload)
    451

    It writes only indices that were drawn from them.
    """

    name: ClassVar[str] = "seeded"
    wire_id: ClassVar[str] = "seeded/1"

    def __init__(self, seed: int = 0) -> None:
        """Makes the coder. Raises ConfigError unless ``seed`` is 0 to 2^31 - 1."""
        check_seed("seeded", seed)
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            lossless=True, needs_seed=True, fixed_size=True, decode_copies=0, executes_on=EXECUTIONS
        )

    def get_config(self) -> dict[str, object]:
        return {"seed": self._seed}

    def encode(self, indices: Array, size: int, round_num: Scalar) -> Array:
        """Refuses indices that were not drawn from this seed and round."""
        seed = ops.round_seed(self._seed, round_num)
        expected = ops.draw_indices(seed, ops.size(indices), size)
        with ops.require(ops.all(indices == expected), f"indices were not drawn by {self!r}"):
            return ops.to_bytes(ops.astype(ops.stack([self._seed, round_num]), "int32"))

    def decode(self, code: Array, count: Array | int, size: int) -> Array:
        """Draws the indices again. Refuses another length and negative numbers."""
        code = ops.of_length(code, _CODE_BYTES, "the seed and round of indices")
        words = ops.from_bytes(code, "int32")
        with ops.require(ops.all(words >= 0), "the seed or round of indices is not valid"):
            return ops.draw_indices(ops.round_seed(words[0], ops.identity(words[1])), count, size)


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

    def get_config(self) -> dict[str, object]:
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

    def _runs(
        self, entries: NDArray[np.int32], size: int
    ) -> list[tuple[NDArray[np.int32], NDArray[np.int32] | int]]:
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


class Rans(EntropyCoder):
    """Writes symbols by asymmetric numeral systems with their own frequencies: about their empirical entropy.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    >>> [len(fedplug.codec(text).encode(x)[0]) for text in ("qsgd(8)", "qsgd(8) | rans")]
    [10112, 9519]

    The frequencies take up to 193 bytes for symbols of 8 bits, and about 20 for those of 4. The states take
    about 8 bytes, and 64 from 65536 symbols on. If the code is not shorter, the symbols are sent uncompressed
    after one byte.

    Sources: Duda, "Asymmetric numeral systems: entropy coding combining speed of Huffman coding with
    compression rate of arithmetic coding", 2013 (arXiv 1311.2540). Giesen, "Interleaved entropy coders", 2014
    (arXiv 1402.3392).
    """

    name: ClassVar[str] = "rans"
    wire_id: ClassVar[str] = "rans/1"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, executes_on=EXECUTIONS)

    def encode(self, packed: Array, count: Array | int, bits: int) -> Array:
        return ops.encode_symbols(packed, count, bits=bits)

    def decode(self, code: Array, count: Array | int, bits: int) -> Array:
        return ops.decode_symbols(code, count, bits=bits)
