"""Error-bounded quantization: the error of every element is at most a share of the range."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.arguments import check_error_feedback, check_number
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Bounded"]

_LEAST, _MOST = 2.0**-15, 0.25
_HEADER_BYTES = 4


class Bounded(ValueFormQuantizer):
    """Rounds to multiples of a step, so that no element is off by more than ``rel * (max - min)``.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("bounded(0.1)").encode(np.float32([0, 1.5, 10]))
    >>> fedplug.decode(payload)
    array([0.       , 1.9999983, 9.999992 ], dtype=float32)

    Range and bound are those of the encoded values: the whole tensor, or the values that a sparsifier
    selected. The bound holds for every element and dtype: the step is ``2 * rel * (max - min)``, less the
    rounding errors of dtype and arithmetic. If values have so few digits that nothing is left, the step is a
    power of two without rounding errors. Zeros stay zeros, equal values stay equal, and no value leaves the
    range. Most multiples in an update are near zero, so add an entropy coder: ``bounded(0.01) | rans``.

    Source: Tao, Di, Chen, Cappello, "Significantly Improving Lossy Compression for Scientific Data Sets Based
    on Multidimensional Prediction and Error-Controlled Quantization", IPDPS 2017 (SZ), its quantization,
    without prediction (neighbours in an update do not predict each other, see benchmarks/results/bounded.md).
    Wilkins et al., "FedSZ: Leveraging Error-Bounded Lossy Compression for Federated Learning Communications",
    ICDCS 2024 (arXiv 2312.13461), for updates and the bound of 1e-2.

    Wire form "bounded/1" (docs/wire-format.md): the bit width of the number ``floor(1 / rel) + 2`` per
    element, 7 bits for 0.01.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "bounded"
    wire_id: ClassVar[str] = "bounded/1"
    executes_on: ClassVar[tuple[str, ...]] = EXECUTIONS

    def __init__(self, rel: float = 1e-2, *, error_feedback: bool = False) -> None:
        """Makes the quantizer.

        Args:
            rel: The largest error of an element as a share of the range, 2^-15 (about 3.1e-5) to 1/4.
            error_feedback: Whether the client keeps the error and adds it to its next update. It has no
                effect after a sparsifier, which keeps the error.

        Raises:
            ConfigError: ``rel`` is out of range, or ``error_feedback`` is not a boolean.
        """
        check_number("bounded rel", rel, lambda share: _LEAST <= share <= _MOST, "from 2^-15 to 1/4")
        check_error_feedback("bounded", error_feedback)
        self._rel = rel
        self.error_feedback = error_feedback

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bound from the start of the code."""
        if len(code) < _HEADER_BYTES:
            raise PayloadError("a bounded payload is too short to hold its bound")
        rel = float(np.ascontiguousarray(code[:_HEADER_BYTES]).view("<f4")[0])
        if not _LEAST <= rel <= _MOST:
            raise PayloadError(f"the bound of a bounded payload is {rel}; it must be from 2^-15 to 1/4")
        return cls(rel)

    @property
    def capabilities(self) -> Capabilities:
        """Within the bound, biased."""
        return dataclasses.replace(super().capabilities, relative_error_bound=self._rel)

    def get_config(self) -> dict[str, Any]:
        return {"rel": self._rel, "error_feedback": self.error_feedback}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "bounded", "relative": _rounded_down(self._rel)}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are."""
        bits = (int(1 / _rounded_down(self._rel)) + 2).bit_length()
        return PackedSymbols(_HEADER_BYTES + 2 * ops.itemsize(dtype), count, bits)


def _rounded_down(rel: float) -> float:
    """Returns a bound rounded down to float32, in which it is sent."""
    nearest = np.float32(rel)
    return float(nearest if float(nearest) <= rel else np.nextafter(nearest, np.float32(0)))
