"""EDEN and DRIVE: quantization to the best levels for normal numbers, after a random rotation."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from fedplug import ops
from fedplug.encoders import PackedSymbols, Quantizer
from fedplug.encoders.arguments import check_seed, check_whole
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Eden"]

_BLOCK, _START = 1024, 9
_LEVELS = {  # the positive ones of Lloyd and Max, each the mean of the normal numbers nearest to it
    1: [0.797884561],
    2: [0.452780035, 1.51041761],
    3: [0.245094179, 0.756005281, 1.34390928, 2.1519457],
    4: [0.12839503, 0.388048299, 0.656759119, 0.942340456, 1.2562312, 1.61804639, 2.06901723, 2.73258957],
}


class Eden(Quantizer):
    """Rotates the values at random and rounds each to the nearest of ``2^bits`` levels.

    >>> import numpy as np, fedplug
    >>> payload, _ = fedplug.codec("eden(2)").encode(np.linspace(-1, 1, 1024, dtype=np.float32))
    >>> len(payload)  # of 4,096 bytes
    299

    With random signs D and the Hadamard matrix H, the elements of ``y = H D x`` of a block are nearly normal
    for any ``x``. ``q`` holds the level nearest to each element of ``y``, scaled to variance 1, and the block
    decodes to ``s D H q`` with ``s = ||y||^2 / <y, q>``. The signs depend on the seed, the round and the
    values, so errors of different clients average out.

    Sources: Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "EDEN:
    Communication-Efficient and Robust Distributed Mean Estimation for Federated Learning", ICML 2022 (arXiv
    2108.08842), algorithm 1; for one bit "DRIVE: One-bit Distributed Mean Estimation", NeurIPS 2021 (arXiv
    2105.08339), algorithm 1.

    ================  =================================================================
    bytes             content of "eden/1", for b blocks of 1,024 values
    ================  =================================================================
    1                 bits
    8                 the seed of the signs, two int32, little-endian
    4 b, or 8 b       s of each block, float64 for float64 and float32 for other tensors
    128 bits b        the number of each level, packed; the last block is padded with 0
    ================  =================================================================
    """

    name: ClassVar[str] = "eden"
    wire_id: ClassVar[str] = "eden/1"

    def __init__(self, bits: int = 4, *, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: Bits per element, 1 to 4.
            seed: Seed of the rotations, 0 to 2^31 - 1.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_whole("eden bits", bits, 1, len(_LEVELS))
        check_seed("eden", seed)
        self._bits, self._seed = bits, seed
        self._levels = [-level for level in reversed(_LEVELS[bits])] + _LEVELS[bits]

    @property
    def capabilities(self) -> Capabilities:
        """Nearly unbiased, which is not declared; with one bit an entry may change its sign."""
        return Capabilities(needs_seed=True, decode_copies=6, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        return {"bits": self._bits, "seed": self._seed}

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the number of bits."""
        if not ops.size(code) or not 1 <= code[0] <= len(_LEVELS):
            raise PayloadError(f"an eden payload has no number of bits from 1 to {len(_LEVELS)}")
        return cls(int(code[0]))

    def encode(self, values: Array, round_num: Scalar) -> Array:
        """See the class. Each block is divided by its largest magnitude, so that no square overflows."""
        x, n = ops.widened(ops.require_finite(values, "the update")), ops.size(values)
        padded = ops.concat([x, ops.asarray([0] * _BLOCK, like=x)])[: _blocks(n) * _BLOCK]
        blocks = ops.reshape(padded, [-1, _BLOCK])
        largest = ops.max(abs(blocks), axis=1)[:, None]
        content = ops.from_bytes(ops.to_bytes(ops.crc32(ops.to_bytes(values))), "int32")
        key = ops.random_words(2, self._seed, round_num) ^ ops.concat([content, content])
        y = _hadamard(ops.divide_no_nan(blocks, largest) * _signs(key, blocks))
        norm = _sums(y * y)
        normal = ops.divide_no_nan(y, ops.sqrt(norm / _BLOCK))
        borders = [ops.asarray((low + high) / 2, like=y) for low, high in pairwise(self._levels)]
        symbols = ops.reshape(ops.add_n([ops.astype(normal > each, "uint8") for each in borders]), [-1])
        q = ops.reshape(
            ops.take(ops.asarray(self._levels, like=y), ops.astype(symbols, "int32")), [-1, _BLOCK]
        )
        s = ops.saturate_cast(ops.multiply(ops.divide_no_nan(norm, _sums(y * q)), largest), y.dtype)
        bits = ops.asarray([self._bits], like=symbols)
        return ops.concat(
            [bits, *map(ops.to_bytes, (key, ops.reshape(s, [-1]))), ops.pack(symbols, self._bits)]
        )

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Returns ``s D H q``, limited to the dtype. Refuses other bits, a wrong length and NaN."""
        start, number, bits = self.symbols(count, dtype)
        with ops.require(ops.size(code) >= start, "an eden payload is too short for its scales"):
            head = ops.identity(code[:start])
        with ops.require(ops.all(head[:1] == bits), f"an eden payload was not made with bits={bits}"):
            key = ops.from_bytes(head[1:_START], "int32")
        s = ops.finite_from_bytes(head[_START:], _blocks(count), ops.wide_dtype(dtype))[:, None]
        symbols = ops.astype(ops.unpack(code[start:], number, bits, "eden"), "int32")
        q = ops.reshape(ops.take(ops.asarray(self._levels, like=s), symbols), [-1, _BLOCK])
        x = ops.multiply(_hadamard(q) * _signs(key, q), s)
        return ops.saturate_cast(ops.reshape(x, [-1])[:count], dtype)

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns the numbers of the levels, whose frequencies differ."""
        scales = _blocks(count) * ops.itemsize(ops.wide_dtype(dtype))
        return PackedSymbols(_START + scales, _blocks(count) * _BLOCK, self._bits)


def _blocks(count: Array | int) -> Any:
    return (count + _BLOCK - 1) // _BLOCK


def _signs(key: Array, like: Array) -> Array:
    words = ops.random_words(ops.size(like), key[0], key[1])
    signs = ops.where(words < 0, ops.asarray(-1, like=like), ops.asarray(1, like=like))
    return ops.reshape(signs, [-1, _BLOCK])


def _hadamard(x: Array) -> Array:
    """Multiplies each row by the Hadamard matrix, scaled so that norms stay."""
    half = 1
    while half < _BLOCK:
        pairs = ops.reshape(x, [-1, 2, half])
        x = ops.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return ops.reshape(x, [-1, _BLOCK]) / ops.asarray(_BLOCK**0.5, like=x)


def _sums(x: Array) -> Array:
    """Adds the elements of each row, halves to halves: the same bits everywhere."""
    half = _BLOCK
    while half > 1:
        half //= 2
        x = x[:, :half] + x[:, half:]
    return x
