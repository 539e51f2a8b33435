"""Narrower floating-point formats: two bytes an element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedplug.encoders.quantizers.value_form import ValueFormQuantizer

__all__ = ["BFloat16", "Float16"]


class _Cast(ValueFormQuantizer):
    """Rounds to the nearest number of another format, ties to even; what is too large becomes the largest."""

    def get_config(self) -> dict[str, Any]:
        return {}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": self.name}


class Float16(_Cast):
    """IEEE 754 binary16: 11 significant bits, magnitudes from 6e-8 to 65504. 2 bytes per element.

    Source: Micikevicius et al., "Mixed Precision Training", ICLR 2018 (arXiv 1710.03740). Wire form
    "float16/1": the elements, little-endian. Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "float16"
    wire_id: ClassVar[str] = "float16/1"


class BFloat16(_Cast):
    """The upper half of a float32: 8 significant bits, the range of float32. 2 bytes per element.

    Source: Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019 (arXiv 1905.12322). Wire
    form "bfloat16/1": the elements, little-endian. Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "bfloat16"
    wire_id: ClassVar[str] = "bfloat16/1"
