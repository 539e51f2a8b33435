"""An entropy coder that learns the frequencies of symbols. Must not know quantizers or pipelines."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders.stages import EntropyCoder
from fedplug.ops.types import Array, SymbolForm
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Adaptive"]


class Adaptive(EntropyCoder):
    """Symbols in an adaptive binary code: no table, and less than their entropy where neighbours are alike.

    Of every symbol goes the distance to the most usual one, its magnitude roughly first. Every bit is coded
    by how often it was 1 so far, where the two symbols before were near that one, or far. So a few symbols
    cost some 4 bytes beside what they carry where `Rans` takes 20 to 200, and many of a real update 2 to 4 %
    less than the entropy of their frequencies, as large entries stand together. To write or read a symbol
    takes 10 to 90 ns, 20 to 90 times what `Rans` takes. In TensorFlow it needs the compiled op.
    Where the code would not be shorter, the symbols go as they are. Those of `TernGrad` are five elements
    each, and come as these, 2 bits each.

    Sources: Moffat, Neal, Witten, "Arithmetic coding revisited", ACM Trans. Inf. Syst. 1998; Marpe, Schwarz,
    Wiegand, "Context-based adaptive binary arithmetic coding", IEEE Trans. Circuits Syst. Video Technol.
    2003; Duda, arXiv 1311.2540. The layout is specified in csrc/core/symbol_code.h.
    """

    name: ClassVar[str] = "adaptive"
    wire_id: ClassVar[str] = "adaptive/1"
    kernel_form: ClassVar[SymbolForm] = "adaptive"
    takes_trits: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, executes_on=EXECUTIONS, needs_op_library=True)

    def encode(self, packed: Array, count: Array | int, bits: int) -> Array:
        return ops.encode_symbols(packed, count, bits=bits, form="adaptive")

    def decode(self, code: Array, count: Array | int, bits: int) -> Array:
        return ops.decode_symbols(code, count, bits=bits, form="adaptive")
