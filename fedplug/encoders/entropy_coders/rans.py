"""rANS, the entropy coder that comes with fedplug. Must not know quantizers or pipelines."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders.stages import EntropyCoder
from fedplug.ops.types import Array, SymbolForm
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Rans"]


class Rans(EntropyCoder):
    """Asymmetric numeral systems with the frequencies of the symbols at hand: about their empirical entropy.

    On top come the frequencies (up to 193 bytes for symbols of 8 bits, about 20 for those of 4) and the
    states (about 8 bytes; from 65536 symbols on, 64). Where that is not shorter, the symbols go as they are,
    with one byte before them.

    Sources: Duda, "Asymmetric numeral systems: entropy coding combining speed of Huffman coding with
    compression rate of arithmetic coding", 2013 (arXiv 1311.2540); Giesen, "Interleaved entropy coders", 2014
    (arXiv 1402.3392). The layout is specified in csrc/core/symbol_code.h.
    """

    name: ClassVar[str] = "rans"
    wire_id: ClassVar[str] = "rans/1"
    kernel_form: ClassVar[SymbolForm] = "rans"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, executes_on=EXECUTIONS)

    def encode(self, packed: Array, count: Array | int, bits: int) -> Array:
        return ops.encode_symbols(packed, count, bits=bits)

    def decode(self, code: Array, count: Array | int, bits: int) -> Array:
        return ops.decode_symbols(code, count, bits=bits)
