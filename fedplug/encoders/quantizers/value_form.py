"""Quantizers whose bytes one op writes and one reads: `fedplug.ops.encode_values` and `decode_values`."""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import fedplug._kernels as _kernels
import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.encoders.stages import Quantizer
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.donation import take_result
from fedplug.ops.types import Array, DType, PackedValues, Scalar
from fedplug.ops.value_code import encode_on_device
from fedplug.registry.specs import EXECUTIONS_AND_CUDA, Capabilities

__all__ = ["ValueFormQuantizer"]


class ValueFormQuantizer(Quantizer):
    """A quantizer by a form of these ops, which the subclass names.

    In a pipeline kernels quantize whole lists by this form, write containers, and compute on devices: see
    `fedplug.encoders.pipeline.kernel_plan.KernelPlan`.
    """

    seed: int = 0
    """The seed of forms that round at random."""

    executes_on: ClassVar[tuple[str, ...]] = EXECUTIONS_AND_CUDA
    """See `Capabilities.executes_on`; a form without a CUDA kernel overrides it."""

    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            super().capabilities, fixed_size=True, decode_copies=0, executes_on=self.executes_on
        )

    @property
    @abc.abstractmethod
    def value_form(self) -> Mapping[str, Any]:
        """The arguments of both ops: ``form``, and ``bits`` and ``block_size`` if the form has them."""

    @functools.cached_property
    def _form(self) -> Mapping[str, Any]:
        return self.value_form

    def form_in(self, round_num: Scalar) -> Mapping[str, Any]:
        """Returns `value_form` of a round, if it may change with the round. Default: it does not."""
        del round_num
        return self._form

    def encode(self, values: Array, round_num: Scalar) -> Array:
        """Refuses values that are NaN or infinite."""
        seed = (self.seed << 32) + round_num
        return ops.encode_values(values, **self.form_in(round_num), seed=seed)

    def encode_each(
        self, values: Sequence[NDArray[Any]], round_num: int, exact: Sequence[NDArray[Any]] | None
    ) -> tuple[list[NDArray[np.uint8]], list[NDArray[Any]]]:
        """Encodes vectors of one dtype in one call of a kernel. See `ValueCoder.quantize_each`."""
        code = self.kernel_arguments(round_num)
        if exact is None:
            return _kernels.encode_values_of_each(list(values), [], None, *code), []
        errors = _kernels.empty((sum(map(len, values)),), exact[0].dtype)
        codes = _kernels.encode_values_of_each(list(values), list(exact), errors, *code)
        ends = [*itertools.accumulate(map(len, values))]
        return codes, list(map(errors.__getitem__, map(slice, [0, *ends], ends)))

    def kernel_arguments(self, round_num: int) -> tuple[str, int, int, float, int]:
        """Returns the last arguments of the kernels that encode. The constructor has checked them."""
        form = self.form_in(round_num)
        bits, block_size = int(form.get("bits", 8)), form.get("block_size", 256)
        return form["form"], bits, block_size, form.get("relative", 0.01), (self.seed << 32) + round_num

    def encode_on_device(
        self, xs: Sequence[DeviceArray], residuals: Sequence[Any] | None, round_num: int
    ) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
        """Quantizes and packs on the device. See `fedplug.ops.value_code.encode_on_device`."""
        seed = (self.seed << 32) + round_num
        return encode_on_device(xs, residuals, **self.form_in(round_num), seed=seed)

    def packed(self, code: NDArray[np.uint8], count: int, dtype: DType) -> PackedValues:
        """Checks the untrusted code of ``count`` values, which a device then decodes."""
        largest = kernels.check_values(code, count, **self._form, dtype=dtype)
        return PackedValues(code, count, np.dtype(dtype), self._form, largest)

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Refuses bytes that `encode` does not write for ``count`` values with this configuration."""
        if type(code) is np.ndarray and type(count) is int and code.dtype == np.uint8:
            form, dtype = self._form, np.dtype(dtype)
            options = int(form.get("bits", 8)), form.get("block_size", 256), form.get("relative", 0.01)
            return _kernels.decode_values(
                code, count, form["form"], dtype, *options, take_result(count, dtype)
            )
        return ops.decode_values(code, count, **self._form, dtype=dtype)
