"""The quantizer of a pipeline without a quantizer: values are sent uncompressed."""

from __future__ import annotations

from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.stages import Quantizer
from fedplug.ops.types import Array, DType
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Raw"]


class Raw(Quantizer):
    """Sends values uncompressed, little-endian: ``itemsize`` bytes per value.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("topk(0.5) | raw").encode(np.float32([1, 2]))
    >>> fedplug.decode(payload)
    array([0., 2.], dtype=float32)
    """

    name: ClassVar[str] = "raw"
    wire_id: ClassVar[str] = "raw/1"
    uncompressed: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        """Lossless."""
        return Capabilities(
            unbiased=True,
            commutes_with_sum=True,
            lossless=True,
            secure_aggregation_safe=True,
            bounded_sensitivity=True,
            sends_every_entry=True,
            fixed_size=True,
            decode_copies=0,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, Any]:
        return {}

    def encode(self, values: Array, round_num: Array) -> Array:
        del round_num
        return ops.to_bytes(values)

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses another number of bytes, and values that are not finite."""
        return ops.finite_from_bytes(code, count, dtype)
