"""Quantizers whose bytes one op writes and one reads: `fedplug.ops.encode_values` and `decode_values`."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.encoders.arguments import (
    MOST_LOG2_BLOCK_SIZE,
    check_block_size,
    check_error_feedback,
    check_number,
    check_whole,
)
from fedplug.encoders.stages import PackedSymbols, Quantizer
from fedplug.errors import PayloadError
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, DType, PackedValues, Scalar, ValueForm, ValueOptions
from fedplug.ops.value_code import encode_on_device
from fedplug.registry.specs import EXECUTIONS, EXECUTIONS_AND_CUDA, Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["BFloat16", "BlockFloatingPoint", "Bounded", "Codebook", "Float16", "Sign", "ValueFormQuantizer"]


class ValueFormQuantizer(Quantizer):
    """A quantizer by a form of these ops, which the subclass names.

    In a pipeline kernels quantize whole lists by this form, write containers, and compute on devices: see
    `fedplug.encoders.pipeline.kernel_plan.KernelPlan`.
    """

    seed: int = 0
    """The seed of forms that round at random."""

    executes_on: ClassVar[tuple[str, ...]] = EXECUTIONS_AND_CUDA
    """See `Capabilities.executes_on`; a form without a CUDA kernel overrides it."""

    needs_op_library: ClassVar[bool] = False
    """See `Capabilities.needs_op_library`; a form without a reference overrides it."""

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities,
            fixed_size=True,
            decode_copies=0,
            executes_on=self.executes_on,
            needs_op_library=self.needs_op_library,
        )

    @property
    @abc.abstractmethod
    def value_form(self) -> ValueOptions:
        """The arguments of both ops: ``form``, and ``bits`` and ``block_size`` if the form has them."""

    @functools.cached_property
    def _form(self) -> ValueOptions:
        return self.value_form

    def form_in(self, round_num: Scalar) -> ValueOptions:
        """Returns `value_form` of a round, if it may change with the round. Default: it does not."""
        del round_num
        return self._form

    def encode(self, values: Array, round_num: Scalar) -> Array:
        """Refuses values that are NaN or infinite."""
        seed = ops.round_seed(self.seed, round_num)
        return ops.encode_values(values, **self.form_in(round_num), seed=seed)

    def encode_each(
        self,
        values: Sequence[NDArray[np.generic]],
        round_num: int,
        exact: Sequence[NDArray[np.generic]] | None,
    ) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.generic]]]:
        """Encodes vectors of one dtype in one call of a kernel. See `ValueCoder.quantize_each`."""
        form, seed = self.form_in(round_num), self.kernel_seed(round_num)
        if exact is None:
            return kernels.encode_values_of_each(values, **form, seed=seed), []
        errors = kernels.empty((sum(map(len, values)),), exact[0].dtype)
        codes = kernels.encode_values_of_each(values, **form, seed=seed, exact=exact, errors=errors)
        ends = [*itertools.accumulate(map(len, values))]
        return codes, list(map(errors.__getitem__, map(slice, [0, *ends], ends)))

    def kernel_seed(self, round_num: int) -> int:
        """Returns `ops.round_seed` of numbers that are checked."""
        return (self.seed << 32) + round_num

    def encode_on_device(
        self, xs: Sequence[DeviceArray], residuals: Sequence[Array | None] | None, round_num: int
    ) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
        """Quantizes and packs on the device. See `fedplug.ops.value_code.encode_on_device`."""
        form = self.form_in(round_num)
        return encode_on_device(xs, residuals, **form, seed=self.kernel_seed(round_num))

    def packed(self, code: NDArray[np.uint8], count: int, dtype: DType) -> PackedValues:
        """Checks the untrusted code of ``count`` values, which a device then decodes."""
        largest = kernels.check_values(code, count, **self._form, dtype=dtype)
        return PackedValues(code, count, np.dtype(dtype), self._form, largest)

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses bytes that `encode` does not write for ``count`` values with this configuration."""
        is_bytes = type(code) is np.ndarray and code.dtype == np.uint8
        if is_bytes and type(count) is int and isinstance(dtype, np.dtype):
            return kernels.decode_values(
                code, count, **self._form, dtype=dtype, out=take_result(count, dtype)
            )
        return ops.decode_values(code, count, **self._form, dtype=dtype)


class _Cast(ValueFormQuantizer):
    """Rounds to the nearest number of another format, ties to even, and at most to its largest number."""

    def get_config(self) -> dict[str, object]:
        return {}

    @property
    def value_form(self) -> ValueOptions:
        return {"form": cast("ValueForm", self.name)}


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

    def get_config(self) -> dict[str, object]:
        return {"error_feedback": self.error_feedback}

    @property
    def value_form(self) -> ValueOptions:
        return {"form": "sign"}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the signs are."""
        return PackedSymbols(ops.itemsize(dtype), count, 1)


_BFP_LEAST_BITS, _BFP_MOST_BITS = 2, 8
_BFP_HEADER_BYTES = 2
_EXPONENT_BYTES = 2


class BlockFloatingPoint(ValueFormQuantizer):
    """Rounds each element to the nearest multiple of a power of two, which each block shares. Ties to even.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("bfp(3)").encode(np.float32([3, -1.4, 0.4]))
    >>> fedplug.decode(payload)
    array([ 3., -1.,  0.], dtype=float32)

    With ``L = 2^(bits-1) - 1``, the step is the smallest power of two for which the block's largest magnitude
    is at most ``(L + 1/2) step``, and the level is ``round(x / step)``. So a decoded tensor is encoded
    without error. As long as the largest magnitude stays between the same two powers of two, an entry does
    not change if it moves by less than its distance to the middle between two levels. If a model is sent
    again and again, few entries are new. See `fedplug.tff.process.broadcaster`.

    The error is deterministic and at most half a step, which is below ``scale / L``, where ``scale`` is the
    block's largest magnitude.

    Sources: Wilkinson, "Rounding Errors in Algebraic Processes", 1963, for block floating point. Rouhani et
    al., "Microscaling Data Formats for Deep Learning", 2023 (arXiv 2310.10537), of which this is MXINT8 with
    other bit widths and larger blocks.

    Wire form "bfp/1" (docs/wire-format.md): ``bits / 8 + 2 / block_size`` bytes per element, 1.004 for 8
    bits.

    Takes float16, bfloat16, float32 and float64. Denormal numbers become 0.
    """

    name: ClassVar[str] = "bfp"
    wire_id: ClassVar[str] = "bfp/1"

    def __init__(self, bits: int = 8, *, block_size: int = 512) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 2 to 8.
            block_size: Number of elements that share an exponent, a power of two.

        Raises:
            ConfigError: An argument is out of range.
        """
        check_whole("bfp bits", bits, _BFP_LEAST_BITS, _BFP_MOST_BITS)
        check_block_size("bfp", block_size)
        self._bits = bits
        self._block_size = block_size

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, sends_every_entry=True)

    def get_config(self) -> dict[str, object]:
        return {"bits": self._bits, "block_size": self._block_size}

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width and block size from the start of the code."""
        if (
            len(code) < _BFP_HEADER_BYTES
            or not _BFP_LEAST_BITS <= code[0] <= _BFP_MOST_BITS
            or code[1] > MOST_LOG2_BLOCK_SIZE
        ):
            raise PayloadError("a bfp payload does not say its bits and block size, or impossible ones")
        return cls(int(code[0]), block_size=2 ** int(code[1]))

    @property
    def value_form(self) -> ValueOptions:
        return {"form": "bfp", "bits": self._bits, "block_size": self._block_size}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are."""
        del dtype
        blocks = ops.block_count(count, self._block_size)
        start = _BFP_HEADER_BYTES + blocks * _EXPONENT_BYTES
        return PackedSymbols(start, count, self._bits)


_CODEBOOK_LEAST_BITS, _CODEBOOK_MOST_BITS = 1, 8
_CODEBOOK_HEADER_BYTES = 1


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
    needs about one bit per value. ``codebook(8)`` is hivemind's uniform 8-bit quantization. In TensorFlow it
    needs the compiled op.

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
    needs_op_library: ClassVar[bool] = True

    def __init__(self, bits: int = 8) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 1 to 8.

        Raises:
            ConfigError: ``bits`` is out of range.
        """
        check_whole("codebook bits", bits, _CODEBOOK_LEAST_BITS, _CODEBOOK_MOST_BITS)
        self._bits = bits

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width from the start of the code."""
        if len(code) < _CODEBOOK_HEADER_BYTES or not _CODEBOOK_LEAST_BITS <= code[0] <= _CODEBOOK_MOST_BITS:
            raise PayloadError("a codebook payload does not say its bits, or not 1 to 8")
        return cls(int(code[0]))

    def get_config(self) -> dict[str, object]:
        return {"bits": self._bits}

    @property
    def value_form(self) -> ValueOptions:
        return {"form": "codebook", "bits": self._bits}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the bins are."""
        return PackedSymbols(_CODEBOOK_HEADER_BYTES + 2**self._bits * ops.itemsize(dtype), count, self._bits)


_LEAST_REL, _MOST_REL = 2.0**-15, 0.25
_BOUNDED_HEADER_BYTES = 4


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
    range. Most multiples in an update are near zero, so add an entropy coder: ``bounded(0.01) | rans``. In
    TensorFlow it needs the compiled op.

    Source: Tao, Di, Chen, Cappello, "Significantly Improving Lossy Compression for Scientific Data Sets Based
    on Multidimensional Prediction and Error-Controlled Quantization", IPDPS 2017 (SZ), its quantization,
    without prediction, because neighbours in an update do not predict each other.
    Wilkins et al., "FedSZ: Leveraging Error-Bounded Lossy Compression for Federated Learning Communications",
    ICDCS 2024 (arXiv 2312.13461), for updates and the bound of 1e-2.

    Wire form "bounded/1" (docs/wire-format.md): the bit width of the number ``floor(1 / rel) + 2`` per
    element, 7 bits for 0.01.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "bounded"
    wire_id: ClassVar[str] = "bounded/1"
    executes_on: ClassVar[tuple[str, ...]] = EXECUTIONS
    needs_op_library: ClassVar[bool] = True

    def __init__(self, rel: float = 1e-2, *, error_feedback: bool = False) -> None:
        """Makes the quantizer.

        Args:
            rel: The largest error of an element as a share of the range, 2^-15 (about 3.1e-5) to 1/4.
            error_feedback: Whether the client keeps the error and adds it to its next update. It has no
                effect after a sparsifier, which keeps the error.

        Raises:
            ConfigError: ``rel`` is out of range, or ``error_feedback`` is not a boolean.
        """
        check_number("bounded rel", rel, lambda share: _LEAST_REL <= share <= _MOST_REL, "from 2^-15 to 1/4")
        check_error_feedback("bounded", error_feedback)
        self._rel = rel
        self.error_feedback = error_feedback

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bound from the start of the code."""
        if len(code) < _BOUNDED_HEADER_BYTES:
            raise PayloadError("a bounded payload is too short to hold its bound")
        rel = float(np.ascontiguousarray(code[:_BOUNDED_HEADER_BYTES]).view("<f4")[0])
        if not _LEAST_REL <= rel <= _MOST_REL:
            raise PayloadError(f"the bound of a bounded payload is {rel}; it must be from 2^-15 to 1/4")
        return cls(rel)

    @property
    def capabilities(self) -> Capabilities:
        """Within the bound, biased."""
        return dataclasses.replace(super().capabilities, relative_error_bound=self._rel)

    def get_config(self) -> dict[str, object]:
        return {"rel": self._rel, "error_feedback": self.error_feedback}

    @property
    def value_form(self) -> ValueOptions:
        return {"form": "bounded", "relative": _rounded_down(self._rel)}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are."""
        bits = (int(1 / _rounded_down(self._rel)) + 2).bit_length()
        return PackedSymbols(_BOUNDED_HEADER_BYTES + 2 * ops.itemsize(dtype), count, bits)


def _rounded_down(rel: float) -> float:
    """Returns a bound rounded down to float32, in which it is sent."""
    nearest = np.float32(rel)
    return float(nearest if float(nearest) <= rel else np.nextafter(nearest, np.float32(0)))
