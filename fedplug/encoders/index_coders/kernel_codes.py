"""The index coders that come with fedplug. Must not know sparsifiers or pipelines."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from fedplug import ops
from fedplug.encoders.stages import IndexCoder
from fedplug.ops.types import Array, IndexForm
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["BitPack", "Bitmap", "Gaps", "Rice", "Shortest"]


class _Coder(IndexCoder):
    """A coder with an op of its own; its layout is specified in csrc/core/index_code.h."""

    name: ClassVar[IndexForm]
    kernel_form: ClassVar[IndexForm]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lossless=True, executes_on=EXECUTIONS)

    def encode(self, indices: Array, size: int, round_num: Array) -> Array:
        del round_num
        return ops.encode_indices(indices, size, form=self.name)

    def decode(self, code: Array, count: Array, size: int) -> Array:
        return ops.decode_indices(code, count, size, form=self.name)


class Rice(_Coder):
    """Gaps between indices in Rice code: about ``log2(n / k) + 1.5`` bits an index where they lie at random.

    Sources: Rice & Plaunt, IEEE Trans. Commun. 1971; Golomb, IEEE Trans. Inf. Theory 1966.
    """

    name = kernel_form = "rice"
    wire_id: ClassVar[str] = "rice/1"


class Bitmap(_Coder):
    """A bit for every element, set where there is an index: ``n / 8`` bytes, whatever the indices.

    Layout: the bit of element ``8 i + j`` is bit j of byte i; unused bits are 0.
    """

    name = kernel_form = "bitmap"
    wire_id: ClassVar[str] = "bitmap/1"


class BitPack(_Coder):
    """Every index as it is, in the fewest bits that hold any: ``bits(n - 1)`` bits an index.

    Layout: one index after the other, its lowest bit first, eight bits a byte; unused bits are 0.
    """

    name = kernel_form = "bitpack"
    wire_id: ClassVar[str] = "bitpack/1"


class Shortest(_Coder):
    """The shortest of the codes of `Rice`, `BitPack` and `Bitmap`, chosen anew for every tensor.

    Layout: a byte that says which, 0, 1 or 2 in this order (the first of equally short ones), and the code.
    """

    name = kernel_form = "shortest"
    wire_id: ClassVar[str] = "shortest/1"


class Gaps(_Coder):
    """Gaps in an adaptive binary code: what sets at random take, and less where entries are close together.

    It begins with the probabilities of gaps at random, and learns those of the gaps at hand, so that a few
    indices take hardly more than ``log2 C(n, k)`` bits, and many of a real update less: there the largest
    entries stand in rows and columns. To write an index takes some 100 ns, 30 times what `Rice` takes. In
    TensorFlow it needs the compiled op.

    Sources: Moffat, Neal, Witten, "Arithmetic coding revisited", ACM Trans. Inf. Syst. 1998; Marpe, Schwarz,
    Wiegand, "Context-based adaptive binary arithmetic coding", IEEE Trans. Circuits Syst. Video Technol.
    2003; Duda, arXiv 1311.2540. The layout is specified in csrc/core/index_code.h.
    """

    name = kernel_form = "gaps"
    wire_id: ClassVar[str] = "gaps/1"

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, needs_op_library=True)
