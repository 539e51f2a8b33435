"""TernGrad: minus one, zero or plus one times a scale, unbiased."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_seed
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.ops.types import Array, DType
from fedplug.registry.specs import Capabilities

__all__ = ["TernGrad"]

_TRITS = 5


class TernGrad(ValueFormQuantizer):
    """Sends ``scale * sign(x)`` with probability ``|x| / scale``, else 0; ``scale`` is the largest magnitude.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("terngrad").encode(np.float32([2, -2, 0, 1]))
    >>> fedplug.decode(payload)
    array([ 2., -2.,  0.,  0.], dtype=float32)

    The random numbers depend on the seed, the round and the values (see `fedplug.ops.dither`): equal calls
    give equal bits. The gradient clipping of the paper, which is biased, is left out.

    Source: Wen, Xu, Yan, Wu, Wang, Chen, Li, "TernGrad: Ternary Gradients to Reduce Communication in
    Distributed Deep Learning", NIPS 2017 (arXiv 1705.07878), equations 1 to 3 and section 4 (one scale per
    layer).

    Wire form "terngrad/1": the scale in the tensor's dtype, little-endian; five elements per byte, the sum of
    ``(sign + 1) * 3^i`` over them; elements missing from the last five count as zero. That is 1/5 byte per
    element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "terngrad"
    wire_id: ClassVar[str] = "terngrad/1"

    def __init__(self, *, seed: int = 0) -> None:
        """Makes the quantizer.

        Args:
            seed: The seed of the random numbers, 0 to 2^31 - 1.

        Raises:
            ConfigError: ``seed`` is out of range.
        """
        check_seed("terngrad", seed)
        self.seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return dataclasses.replace(super().capabilities, unbiased=True, needs_seed=True)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}

    @property
    def value_form(self) -> Mapping[str, Any]:
        return {"form": "terngrad"}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the bytes of five elements each are."""
        return PackedSymbols(ops.itemsize(dtype), (count + _TRITS - 1) // _TRITS, 8)
