"""TernGrad: minus one, zero or plus one times a scale, unbiased."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders import Quantizer
from fedplug.encoders.arguments import check_seed
from fedplug.ops.types import Array, DType, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["TernGrad"]

_DIGITS = 5  # base-3 digits in a byte


class TernGrad(Quantizer):
    """Sends ``scale * sign(x)`` with probability ``|x| / scale``, else 0; ``scale`` is the largest magnitude.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("terngrad").encode(np.float32([2, -2, 0, 1]))
    >>> fedplug.decode(payload)
    array([ 2., -2.,  0.,  0.], dtype=float32)

    The clipping of gradients in the paper, which is biased, is left out.

    Source: Wen, Xu, Yan, Wu, Wang, Chen, Li, "TernGrad: Ternary Gradients to Reduce Communication in
    Distributed Deep Learning", NIPS 2017 (arXiv 1705.07878), equations 1 to 3 and section 4.

    ===============  ==================================================================
    bytes            content of "terngrad/1", for n values
    ===============  ==================================================================
    the item size    the scale, in the tensor's dtype, little-endian
    ceil(n / 5)      the sum of ``(sign + 1) * 3^i`` for five values each, the first in
                     the lowest digit. Missing digits are 0
    ===============  ==================================================================
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
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased."""
        return Capabilities(unbiased=True, needs_seed=True, sends_every_entry=True, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        return {"seed": self._seed}

    def encode(self, values: Array, round_num: Scalar) -> Array:
        """Returns the scale and the digits."""
        x = ops.widened(ops.require_finite(values, "the update"))
        scale = ops.maximum(ops.max(abs(x)), ops.asarray(0, like=x))  # the maximum of no values is -inf
        noise = ops.astype(ops.dither(values, ops.round_seed(self._seed, round_num)), x.dtype)
        sent = noise < ops.divide_no_nan(abs(x), scale)
        digits = ops.astype(ops.where(sent, ops.where(x < 0, 0, 2), 1), "uint8")
        digits = ops.concat([digits, ops.asarray([0] * (_DIGITS - 1), like=digits)])
        end = _bytes(ops.size(x)) * _DIGITS
        code = ops.add_n([digits[i:end:_DIGITS] * 3**i for i in range(_DIGITS)])
        return ops.concat([ops.to_bytes(ops.reshape(ops.astype(scale, values.dtype), [1])), code])

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses a wrong length, digits that are missing or too many, and scales that no encoder writes."""
        start = ops.itemsize(dtype)
        code = ops.of_length(code, start + _bytes(count), "the bytes of a terngrad code")
        scale = ops.finite_from_bytes(code[:start], 1, dtype)
        packed = code[start:]
        digits = ops.reshape(ops.stack([packed // 3**i % 3 for i in range(_DIGITS)], axis=1), [-1])
        valid = ops.all(packed < 3**_DIGITS) & ops.all(digits[count:] == 0) & (code[start - 1] < 128)
        with ops.require(valid, "a terngrad code has a byte above 242, more digits than values, or a sign"):
            return (ops.astype(digits[:count], dtype) - ops.asarray(1, like=scale)) * scale


def _bytes(count: Array | int) -> Scalar:
    return (count + _DIGITS - 1) // _DIGITS
