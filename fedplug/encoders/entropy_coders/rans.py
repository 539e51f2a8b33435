"""rANS, an entropy coder with a table of frequencies."""

from __future__ import annotations

from typing import ClassVar

import fedplug.ops as ops
from fedplug.encoders.stages import EntropyCoder
from fedplug.ops.types import Array
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Rans"]


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
