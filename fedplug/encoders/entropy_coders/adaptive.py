"""An entropy coder that learns the frequencies of symbols."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders.stages import EntropyCoder
from fedplug.ops.types import Array, SymbolForm
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Adaptive"]


class Adaptive(EntropyCoder):
    """Writes symbols in an adaptive binary code without a table; below their entropy if neighbours are alike.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    >>> [len(fedplug.codec(text).encode(x)[0]) for text in ("qsgd(8)", "qsgd(8) | adaptive")]
    [10112, 9406]

    Each symbol is coded as its distance to the most usual symbol, its magnitude roughly first. The
    probability of a bit is how often it was 1 so far, given whether the two symbols before were near that
    symbol. So a few symbols cost about 4 bytes beside their information, where `Rans` takes 20 to 200. Many
    symbols of a real update take 2 to 4 % less than the entropy of their frequencies, because large entries
    are clustered. Writing or reading a symbol takes 10 to 90 ns, 20 to 90 times as long as `Rans`. In
    TensorFlow it needs the compiled op. If the code would not be shorter, the symbols are sent uncompressed.
    Symbols of `TernGrad`, five elements each, are coded element by element, 2 bits each.

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
