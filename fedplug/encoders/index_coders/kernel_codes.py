"""fedplug's own index coders."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

import fedplug._kernels as _kernels
import fedplug.ops as ops
from fedplug.encoders.stages import IndexCoder
from fedplug.ops.types import Array, IndexForm, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Gaps", "Rice"]


class _Coder(IndexCoder):
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
            return _kernels.decode_indices(code, count, size, self.name, None)
        return ops.decode_indices(code, count, size, form=self.name)


class Rice(_Coder):
    """Writes the gaps of indices in Rice code: about ``log2(n / k) + 1.5`` bits per index if they are random.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    >>> len(fedplug.codec("topk(0.01) | rice").encode(x)[0])
    537

    Sources: Rice & Plaunt, IEEE Trans. Commun. 1971. Golomb, IEEE Trans. Inf. Theory 1966.
    """

    name = kernel_form = "rice"
    wire_id: ClassVar[str] = "rice/1"


class Gaps(_Coder):
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
