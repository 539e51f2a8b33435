"""Quantizers: the stage of a pipeline that represents values in fewer bits.

`Identity` and `MixedQSGD` are encoders of their own.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import itertools
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.encoders.arguments import (
    MOST_LOG2_BLOCK_SIZE,
    check_block_size,
    check_error_feedback,
    check_number,
    check_seed,
    check_whole,
)
from fedplug.encoders.assignment import Adjustable, Adjustment
from fedplug.encoders.base import BodyParts, Encoder, Measured, Payload, State
from fedplug.encoders.stages import PackedSymbols, Quantizer
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, DType, PackedValues, Scalar, Spec, ValueForm, ValueOptions
from fedplug.ops.value_code import encode_on_device
from fedplug.registry.specs import EXECUTIONS, EXECUTIONS_AND_CUDA, Capabilities
from fedplug.schedules import Schedule, as_schedule, schedule_config

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = [
    "LEAST_BITS",
    "MOST_BITS",
    "QSGD",
    "BFloat16",
    "BlockFloatingPoint",
    "Bounded",
    "Codebook",
    "Float16",
    "Identity",
    "IdentityStage",
    "MixedQSGD",
    "Sign",
    "ValueFormQuantizer",
    "levels_at",
    "share_out",
]

_PROMISES = Capabilities(
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
"""All promises but client state."""


class Identity(Encoder, Measured):
    """Sends every element uncompressed: ``itemsize`` bytes each. Takes any numeric or boolean dtype.

    After a sparsifier it sends the selected values uncompressed, as without a quantizer.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("identity").encode(np.int8([1, 2, 3]))
    >>> fedplug.decode(payload)
    array([1, 2, 3], dtype=int8)
    """

    name: ClassVar[str] = "identity"
    wire_id: ClassVar[str] = "identity/1"

    @property
    def capabilities(self) -> Capabilities:
        """All promises but client state."""
        return _PROMISES

    def get_config(self) -> dict[str, object]:
        return {}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns the payload ``{"values": x}``, with the shape of ``x``."""
        del round_num
        return {"values": x}, state

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns the values unchanged."""
        return ops.ensure_shape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """Returns the elements in row-major order, little-endian."""
        del spec
        return ops.to_bytes(payload["values"])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses a body that is not exactly one tensor of the spec, and values that are not finite."""
        values = IdentityStage().decode(body, ops.num_elements(spec), spec.dtype)
        return {"values": ops.reshape(values, spec.shape)}

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        """Counts all bytes as uncompressed values."""
        del spec
        return BodyParts(0, ops.size(body), ops.astype(ops.size(body), "float64"))


class IdentityStage(Quantizer):
    """`Identity` as the quantizer of a pipeline, and the default one: the values, little-endian.

    Its wire id is left out of that of a pipeline, and alone it writes the bytes of `Identity`.
    """

    name: ClassVar[str] = "identity"
    wire_id: ClassVar[str] = "identity/1"
    uncompressed: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        """Lossless."""
        return _PROMISES

    def get_config(self) -> dict[str, object]:
        return {}

    def encode(self, values: Array, round_num: Scalar) -> Array:
        del round_num
        return ops.to_bytes(values)

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses another number of bytes, and values that are not finite."""
        if getattr(dtype, "kind", None) == "f" or ops.is_floating(dtype):
            return ops.finite_from_bytes(code, count, dtype)
        data = ops.of_length(code, count * ops.itemsize(dtype), "the bytes of an identity payload")
        return ops.from_bytes(data, dtype)


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


LEAST_BITS, MOST_BITS = 2, 8
"""Limits of the bits per element in ``qsgd`` and ``bfp``."""

_BFP_HEADER_BYTES = 2
_EXPONENT_BYTES = 2


def _header(code: Array, layout: str) -> tuple[Any, ...]:
    """Returns the numbers at the start of an untrusted code; a constructor then refuses impossible ones."""
    size = struct.calcsize(layout)
    if len(code) < size:
        raise PayloadError("a payload is too short to hold the configuration of its quantizer")
    return struct.unpack(layout, bytes(code[:size]))


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
        check_whole("bfp bits", bits, LEAST_BITS, MOST_BITS)
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
        bits, log2_block_size = _header(code, "BB")
        return cls(bits, block_size=2**log2_block_size)

    @property
    def value_form(self) -> ValueOptions:
        return {"form": "bfp", "bits": self._bits, "block_size": self._block_size}

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols:
        """Returns where the levels are."""
        del dtype
        blocks = ops.block_count(count, self._block_size)
        start = _BFP_HEADER_BYTES + blocks * _EXPONENT_BYTES
        return PackedSymbols(start, count, self._bits)


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
        check_whole("codebook bits", bits, 1, MOST_BITS)
        self._bits = bits

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width from the start of the code."""
        return cls(*_header(code, "B"))

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
    TensorFlow it needs the compiled op, and with an entropy coder a bound of at least 0.004.

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
        return cls(*_header(code, "<f"))

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


def share_out(
    total: Array, sizes: Sequence[Scalar], energies: Sequence[Scalar], gains: Sequence[float]
) -> list[Array]:
    """Returns the number of bits that each tensor gets beyond its minimum.

    An element of tensor t with i bits more than the minimum has the expected squared error ``energies[t] * (c
    - gains[0] - ... - gains[i - 1])``. If the gains fall, as they do for all quantizers in use, the greedy
    way is optimal: each bit goes to the tensor whose error it reduces most, for all elements of the tensor,
    until all bits are spent. Only the last tensor may get a bit for some of its elements.

    Source: Fox, "Discrete Optimization via Marginal Analysis", Management Science 13(3), 1966; for quantizers
    Gersho and Gray, "Vector Quantization and Signal Compression", 1992, section 8.4, and Shoham and Gersho,
    "Efficient Bit Allocation for an Arbitrary Set of Quantizers", IEEE TASSP 36(9), 1988.

    Args:
        total: Number of bits, an int64 scalar. Bits beyond the maximum of all tensors are not spent.
        sizes: Number of elements of each tensor.
        energies: The energy of each tensor. float64 scalars, 0 or more. Tensors of equal energy are served in
            order.
        gains: Positive, falling numbers. One for each bit that an element can have beyond the minimum.

    Returns:
        The bits of each tensor, an int64 scalar, at most ``len(gains)`` times its size.
    """
    steps = len(gains)
    counts = ops.repeat(ops.stack([ops.astype(size, "int64") for size in sizes]), steps)
    each = ops.stack(energies)
    by_bit = ops.reshape(each, [-1, 1]) * ops.asarray(gains, like=each)
    worth = ops.reshape(by_bit, [-1])
    order = ops.argsort_descending(worth)  # of equal ones the first comes first
    wanted = ops.take(counts, order)
    spent_before = ops.cumulative_sum(wanted)
    given = ops.clip(total - spent_before, ops.zeros_like(wanted), wanted)
    shared = ops.segment_sum(given, order // steps, len(energies))
    return [shared[tensor] for tensor in range(len(energies))]


_MIXED_HEADER_BYTES = 5
_ROUNDING = 1e-6
QSGD_HEADER_BYTES = 2


def levels_at(count: Array | int, block_size: int, dtype: DType) -> Array | int:
    """Returns where the levels begin in the "qsgd/1" form of ``count`` values; a number, or a scalar."""
    return QSGD_HEADER_BYTES + ops.block_count(count, block_size) * ops.itemsize(dtype)


class MixedQSGD(Encoder, Adjustable):
    """Quantizes by ``qsgd`` with a mean number of bits over all elements of all tensors that share it.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("mixed_qsgd(2.5)").encode(np.float32([3, -3, 0, 3]))
    >>> fedplug.decode(payload)
    array([ 3., -3.,  0.,  3.], dtype=float32)

    The update decides how many bits each tensor gets. A block of n elements with the largest magnitude s and
    b bits has an expected squared error of about ``n s^2 / (6 L^2)`` with ``L = 2^(b-1) - 1``: the variance
    of rounding at random to levels ``s / L`` apart. Each bit goes where it reduces the error most, see
    `share_out`. The last tensor served gets one bit more for its first elements than for the others, so that
    all bits are spent. Every element has at least 2 bits, and so remains unbiased.

    Wire form "mixed_qsgd/1" (docs/wire-format.md): 7 bytes more than "qsgd/1", and up to one scale.
    """

    name: ClassVar[str] = "mixed_qsgd"
    wire_id: ClassVar[str] = "mixed_qsgd/1"

    def __init__(self, bits: float | Schedule = 8, *, block_size: int = 512, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: The mean number of bits per element, 2 to 8, or a schedule of such numbers.
            block_size: Number of elements that share a scale, a power of two.
            seed: The seed of the random numbers, 0 to 2^31 - 1.

        Raises:
            ConfigError: An argument is out of range.
        """
        mean = as_schedule(bits)
        for value in mean.values():
            in_range = f"from {LEAST_BITS} to {MOST_BITS}"
            check_number("mixed_qsgd bits", value, lambda bits: LEAST_BITS <= bits <= MOST_BITS, in_range)
        self._mean = mean
        check_block_size("mixed_qsgd", block_size)
        check_seed("mixed_qsgd", seed)
        self._block_size = block_size
        self._seed = seed
        self._rate: Scalar | None = None

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the block size from the "qsgd/1" form."""
        del spec
        at = _MIXED_HEADER_BYTES + QSGD_HEADER_BYTES - 1
        if ops.size(body) <= at or body[at] > MOST_LOG2_BLOCK_SIZE:
            raise PayloadError("a mixed qsgd payload does not say its block size, or too large a one")
        return cls(block_size=2 ** int(body[at]))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            unbiased=True,
            needs_seed=True,
            sends_every_entry=True,
            decode_copies=1,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, object]:
        return {"bits": schedule_config(self._mean), "block_size": self._block_size, "seed": self._seed}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Spends all bits on this tensor."""
        (encoded,) = self.grouped_encode([x], [state], round_num)
        return encoded

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[tuple[Payload, State]]:
        """Allocates the bits across all tensors."""
        vectors = [ops.reshape(x, [-1]) for x in xs]
        extra = self._extra_bits(vectors, round_num)
        return [
            (self._payload(values, bits, round_num), state)
            for values, bits, state in zip(vectors, extra, states, strict=True)
        ]

    def decode(self, payload: Payload, spec: Spec) -> Array:
        if "values" not in payload:
            payload = self.from_wire(payload["code"], spec)
        return ops.reshape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        del spec
        return payload["code"]

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses an invalid header, and an invalid form of ``qsgd`` after it."""
        with ops.require(
            ops.size(body) >= _MIXED_HEADER_BYTES, "a mixed qsgd payload is too short to hold its header"
        ):
            bits = ops.astype(body[0], "int32")
        count = ops.num_elements(spec)
        split = ops.from_bytes(body[1:_MIXED_HEADER_BYTES], "int32")[0]
        known = (bits >= LEAST_BITS) & (bits <= MOST_BITS)
        fits = (split == 0) | ((split > 0) & (split < count) & (bits < MOST_BITS))
        with ops.require(known & fits, "the header of a mixed qsgd payload is wrong"):
            bits, split, code = ops.identity(bits), ops.identity(split), body[_MIXED_HEADER_BYTES:]
        finer = ops.minimum(bits + 1, MOST_BITS)
        end = self._qsgd_bytes(split, finer, spec.dtype)
        values = [
            ops.decode_values(code[:end], split, **self._form(finer), dtype=spec.dtype),
            ops.decode_values(code[end:], count - split, **self._form(bits), dtype=spec.dtype),
        ]
        return {"code": body, "values": ops.concat(values)}

    def adjustment(self) -> Self:
        return self

    @property
    def encoder(self) -> Encoder:
        return self

    @property
    def adjusts(self) -> Literal["bits"]:
        return "bits"

    def at_rate(self, rate: Scalar) -> Self:
        """Returns the encoder with a mean of ``rate`` times as many bits, from 2 to 8."""
        adjusted = copy.copy(self)
        adjusted._rate = rate
        return adjusted

    def min_bytes(self, spec: Spec) -> int:
        """Returns the size with two bits for every element."""
        sizes = (self._qsgd_bytes(count, LEAST_BITS, spec.dtype) for count in (0, ops.num_elements(spec)))
        return _MIXED_HEADER_BYTES + sum(map(int, sizes))

    def _extra_bits(self, vectors: Sequence[Array], round_num: Scalar) -> list[Array]:
        """Returns the bits of each vector, beyond 2 bits for each of its elements."""
        sizes = [ops.astype(ops.size(values), "int64") for values in vectors]
        mean = ops.astype(self._mean.value(round_num), "float64")
        if self._rate is not None:
            mean = mean * ops.astype(self._rate, "float64")
        beyond = ops.clip(mean - LEAST_BITS, 0.0, MOST_BITS - LEAST_BITS)
        total = ops.astype(ops.round(beyond * ops.astype(ops.add_n(sizes), "float64")), "int64")
        return share_out(total, sizes, [self._energy(values) for values in vectors], _gains())

    def _energy(self, values: Array) -> Scalar:
        """Returns the mean of ``s^2`` over the blocks, a float64 scalar."""
        scales = ops.astype(ops.block_scales(values, self._block_size), "float64")
        return ops.mean_magnitude(scales * scales)

    def _payload(self, values: Array, extra: Array, round_num: Scalar) -> Payload:
        """Returns the payload of a vector with ``extra`` bits beyond 2 for each of its elements."""
        count = ops.maximum(ops.astype(ops.size(values), "int64"), 1)
        bits, split = ops.astype(LEAST_BITS + extra // count, "int32"), ops.astype(extra % count, "int32")
        seed = ops.round_seed(self._seed, round_num)
        codes = [
            ops.encode_values(part, **self._form(width), seed=seed)
            for part, width in ((values[:split], ops.minimum(bits + 1, MOST_BITS)), (values[split:], bits))
        ]
        header = [ops.to_bytes(ops.astype(bits, "uint8")), ops.to_bytes(split)]
        return {"code": ops.concat([*header, *codes])}

    def _form(self, bits: Array) -> ValueOptions:
        return {"form": "qsgd", "bits": bits, "block_size": self._block_size}

    def _qsgd_bytes(self, count: Array | int, bits: Array | int, dtype: DType) -> Array | int:
        """Returns the size of the "qsgd/1" form of ``count`` values; a number, or a scalar."""
        size: Array | int = levels_at(count, self._block_size, dtype) + ops.packed_size(count, bits)
        return size


def _gains() -> list[float]:
    """Returns how much every bit from the third on reduces the squared error, in units of s^2 / 6."""
    errors = [(2 ** (bits - 1) - 1) ** -2 for bits in range(LEAST_BITS, MOST_BITS + 1)]
    return [before - after for before, after in pairwise(errors)]


class QSGD(ValueFormQuantizer, Adjustable):
    """Rounds every element to one of ``2 L + 1`` evenly spaced levels, ``L = 2^(bits-1) - 1``.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("qsgd(3)").encode(np.float32([3, -1.5, 0]))
    >>> fedplug.decode(payload)
    array([ 3., -2.,  0.], dtype=float32)
    >>> payload, _ = fedplug.codec("qsgd(rounding='nearest')").encode(np.float32([127, -2.4, 0]))
    >>> fedplug.decode(payload)
    array([127.,  -2.,   0.], dtype=float32)

    With the block's largest magnitude as ``scale`` and ``y = L x / scale``, the level is ``floor(y)`` or
    ``floor(y) + 1``, the latter with probability ``y - floor(y)``. So the expectation is ``x``, and the error
    is below ``scale / L``. The random numbers depend on the seed, the round and the values (see
    `fedplug.ops.dither`): equal calls give equal bits. With ``rounding="nearest"`` the level is the nearest
    to ``y``, ties to even. That is biased and halves the largest error. Receivers need not know the rounding.

    Source: Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-Efficient SGD via Gradient
    Quantization and Encoding", NIPS 2017 (arXiv 1610.02132), section 3, with the buckets and the scaling by
    the maximum of section 4. Levels have a fixed number of bits instead of Elias codes.
    To nearest: Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", ICLR
    2022 (arXiv 2110.02861), section 2, with evenly spaced levels.

    Wire form "qsgd/1" (docs/wire-format.md): ``bits / 8 + itemsize / block_size`` bytes per element: 1.008
    for 8 bits of float32.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "qsgd"
    wire_id: ClassVar[str] = "qsgd/1"

    def __init__(
        self,
        bits: int | Schedule = 8,
        *,
        block_size: int = 512,
        seed: int = 0,
        rounding: Literal["random", "nearest"] = "random",
    ) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 2 to 8, or a schedule of bit widths.
            block_size: Number of elements that share a scale, a power of two.
            seed: The seed of the random numbers, 0 to 2^31 - 1.
            rounding: "random" or "nearest".

        Raises:
            ConfigError: An argument is out of range.
        """
        self._bits = _whole_bits(bits)
        self._in_each_round = list(map(round, self._bits.values()))
        self._widths = sorted(set(self._in_each_round))
        check_block_size("qsgd", block_size)
        check_seed("qsgd", seed)
        if rounding not in ("random", "nearest"):
            raise ConfigError(f"qsgd rounding is {rounding!r}; it must be 'random' or 'nearest'")
        self._block_size = block_size
        self._nearest = rounding == "nearest"
        self.seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased with random rounding."""
        return Capabilities(
            unbiased=not self._nearest,
            needs_seed=not self._nearest,
            sends_every_entry=True,
            fixed_size=len(self._widths) == 1,
            decode_copies=0,
            executes_on=self.executes_on,
        )

    def get_config(self) -> dict[str, object]:
        config = {"bits": schedule_config(self._bits), "block_size": self._block_size, "seed": self.seed}
        return {**config, "rounding": "nearest"} if self._nearest else config

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width and block size from the start of the code."""
        bits, log2_block_size = _header(code, "BB")
        quantizer: Self = _configured(cls, bits, 2**log2_block_size)
        return quantizer

    @property
    def value_form(self) -> ValueOptions:
        """The form with the bits of the first round. See `form_in` and `decode` for other rounds."""
        form: ValueForm = "nearest" if self._nearest else "qsgd"
        return {"form": form, "bits": self._widths[0], "block_size": self._block_size}

    def form_in(self, round_num: Scalar) -> ValueOptions:
        if len(self._widths) == 1:
            return self._form
        return {**self._form, "bits": ops.table_lookup(self._in_each_round, round_num, "int32")}

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Decodes with the bit width in the payload, if some round has it."""
        if len(self._widths) == 1:
            return super().decode(code, count, dtype)
        with ops.require(ops.size(code) > 0, "a qsgd payload is too short to hold its bits"):
            bits = ops.astype(code[0], "int32")
        known = ops.any(bits == ops.asarray(self._widths, like=bits))
        with ops.require(known, f"a qsgd payload was not made with the bits of any round, {self._widths}"):
            form: ValueOptions = {**self.value_form, "bits": ops.identity(bits)}
        return ops.decode_values(code, count, **form, dtype=dtype)

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols | None:
        """Returns where the levels are. None if bit widths change, because entropy coders need them."""
        if len(self._widths) > 1:
            return None
        return PackedSymbols(levels_at(count, self._block_size, dtype), count, self._widths[0])

    def adjustment(self) -> Adjustment:
        """Returns `MixedQSGD`, whose bits rate control allocates across tensors."""
        return MixedQSGD(self._bits, block_size=self._block_size, seed=self.seed)


def _whole_bits(bits: object) -> Schedule:
    """Returns the bits of each round. Those of a schedule may be off by the rounding of its arithmetic."""
    try:
        schedule = as_schedule(bits)
    except ConfigError as error:
        raise ConfigError(f"qsgd bits is {bits!r}: {error}") from error
    for round_num, value in enumerate(schedule.values()):
        is_whole = abs(value - round(value)) <= _ROUNDING and not isinstance(bits, float)
        if not is_whole or not LEAST_BITS <= round(value) <= MOST_BITS:
            is_number = isinstance(bits, int | float)
            found = f"{bits!r}" if is_number else f"{value!r} in round {round_num} of {schedule!r}"
            raise ConfigError(
                f"qsgd bits is {found}; it must be a whole number from {LEAST_BITS} to {MOST_BITS} in every "
                "round (for one bit an element, use sign)"
            )
    return schedule


@functools.lru_cache(maxsize=(MOST_BITS - LEAST_BITS + 1) * (MOST_LOG2_BLOCK_SIZE + 1))
def _configured(kind: type[QSGD], bits: int, block_size: int) -> Any:
    """Returns a cached quantizer: a receiver meets few configurations, and reads one from every payload."""
    return kind(bits, block_size=block_size)
