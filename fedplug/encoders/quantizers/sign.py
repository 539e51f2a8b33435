"""Signs and one scale: one bit per element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_error_feedback
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.ops.types import Array, DType

__all__ = ["Sign"]


class Sign(ValueFormQuantizer):
    """Sends ``mean(|x|) * sign(x)``, where ``sign(0) = +1``: the nearest vector to ``x`` with one magnitude.

    >>> import fedplug, numpy as np
    >>> payload, state = fedplug.codec("sign").encode(np.float32([1, -2, 3]))
    >>> fedplug.decode(payload), state["residual"]
    (array([ 2., -2.,  2.], dtype=float32), array([-1.,  0.,  1.], dtype=float32))

    Sources: Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent", Interspeech 2014. Karimireddy,
    Rebjock, Stich, Jaggi, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847), algorithm 1 and equation 4. Without error feedback training need not converge.

    Wire form "sign/1" (docs/wire-format.md): 1/8 byte per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "sign"
    wire_id: ClassVar[str] = "sign/1"

    def __init__(self, *, error_feedback: bool = True) -> None:
        """Makes the quantizer.

        Args:
            error_feedback: Whether the client keeps the error and adds it to its next update. It has no
                effect after a sparsifier, which keeps the error.

        Raises:
            ConfigError: ``error_feedback`` is not a boolean.
        """
        check_error_feedback("sign", error_feedback)
        self.error_feedback = error_feedback

    def get_config(self) -> dict[str, Any]:
        return {"error_feedback": self.error_feedback}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "sign"}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the signs are."""
        return PackedSymbols(ops.itemsize(dtype), count, 1)
