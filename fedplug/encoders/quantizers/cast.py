"""Narrower floating-point formats: two bytes per element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedplug.encoders.quantizers.value_form import ValueFormQuantizer

__all__ = ["BFloat16", "Float16"]


class _Cast(ValueFormQuantizer):
    """Rounds to the nearest number of another format, ties to even, and at most to its largest number."""

    def get_config(self) -> dict[str, Any]:
        return {}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": self.name}


class Float16(_Cast):
    """Rounds to IEEE 754 binary16: 11 significant bits, magnitudes from 6e-8 to 65504; 2 bytes per element.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("float16").encode(np.float32([1, 0.1, 1e6]))
    >>> fedplug.decode(payload)
    array([1.0000000e+00, 9.9975586e-02, 6.5504000e+04], dtype=float32)

    Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018 (arXiv 1710.03740). Takes float16,
    bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "float16"
    wire_id: ClassVar[str] = "float16/1"


class BFloat16(_Cast):
    """Rounds to bfloat16, the upper half of a float32: 8 significant bits, same range; 2 bytes per element.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("bfloat16").encode(np.float32([1, 0.1, 1e6]))
    >>> fedplug.decode(payload)
    array([1.00000000e+00, 1.00097656e-01, 9.99424000e+05], dtype=float32)

    Source: Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019 (arXiv 1905.12322). Takes
    float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "bfloat16"
    wire_id: ClassVar[str] = "bfloat16/1"
