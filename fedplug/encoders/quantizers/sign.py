"""Signs and one scale: one bit an element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.ops.types import Array, DType

__all__ = ["Sign"]


class Sign(ValueFormQuantizer):
    """``mean(|x|) * sign(x)``, where ``sign(0) = +1``: of all vectors of one magnitude the nearest to ``x``.

    Sources: Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy,
    Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847), algorithm 1 and equation 4. Without error feedback it need not converge.

    Wire form "sign/1": the scale in the tensor's dtype, little-endian; the bit of element ``8 i + j`` is bit
    j of byte i, 1 for ``+``; unused bits are 0. That is 1/8 byte per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "sign"
    wire_id: ClassVar[str] = "sign/1"

    def __init__(self, *, error_feedback: bool = True) -> None:
        """Makes the encoder.

        Args:
            error_feedback: Keep the error in the client's state and add it the next time. Without effect
                after a sparsifier, which keeps it.

        Raises:
            ConfigError: It is no boolean.
        """
        check_error_feedback("sign", error_feedback)
        self.error_feedback = error_feedback

    def get_config(self) -> dict[str, Any]:
        return {"error_feedback": self.error_feedback}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "sign"}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """The signs."""
        return PackedSymbols(ops.itemsize(dtype), count, 1)
