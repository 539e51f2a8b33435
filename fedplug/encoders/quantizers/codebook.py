"""Few bits per element: each value becomes the mean of the values near it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType
from fedplug.registry.specs import EXECUTIONS

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Codebook"]

_LEAST_BITS, _MOST_BITS = 1, 8
_HEADER_BYTES = 1


class Codebook(ValueFormQuantizer):
    """Divides 6 standard deviations around the mean into ``2^bits`` bins. Sends the bin of each value.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("codebook(2)").encode(np.float32([-3, -2, -1, 1, 2, 3]))
    >>> fedplug.decode(payload)
    array([-2.5, -2.5,  0. ,  0. ,  2.5,  2.5], dtype=float32)

    With mean m and standard deviation s of all values, x is in bin ``round(2^bits (x - m) / (6 s)) +
    2^(bits-1)``, or in the nearest bin, and becomes the mean of the values in its bin. So the mean of all
    values does not change, and outliers do not widen the bins. The largest entries of an update are far from
    their mean on both sides: ``codebook(2)`` keeps little more than their signs, and an entropy coder then
    needs about one bit per value. ``codebook(8)`` is hivemind's uniform 8-bit quantization.

    Sources: Ryabinin, Borzunov, Diskin, et al., "hivemind" (`Uniform8BitQuantization`). Sarfi et al.,
    "Communication Efficient LLM Pre-training with SparseLoCo", arXiv 2508.15706, section 3, for 2 bits.
    csrc/core/value_code.h specifies all roundings, so that results have the same bits everywhere.

    Wire form "codebook/1" (docs/wire-format.md): ``bits / 8`` bytes per element, and
    ``2^bits * itemsize + 1`` more. The mean of an empty bin is 0.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "codebook"
    wire_id: ClassVar[str] = "codebook/1"
    executes_on: ClassVar[tuple[str, ...]] = EXECUTIONS

    def __init__(self, bits: int = 8) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 1 to 8.

        Raises:
            ConfigError: ``bits`` is out of range.
        """
        check_whole("codebook bits", bits, _LEAST_BITS, _MOST_BITS)
        self._bits = bits

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width from the start of the code."""
        if len(code) < _HEADER_BYTES or not _LEAST_BITS <= code[0] <= _MOST_BITS:
            raise PayloadError("a codebook payload does not say its bits, or not 1 to 8")
        return cls(int(code[0]))

    def get_config(self) -> dict[str, Any]:
        return {"bits": self._bits}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "codebook", "bits": self._bits}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the bins are."""
        return PackedSymbols(_HEADER_BYTES + 2**self._bits * ops.itemsize(dtype), count, self._bits)
