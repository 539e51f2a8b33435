"""The plan of a pipeline on NumPy or device arrays: kernels write index codes, values and containers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.encoders.base import Encoder, State
from fedplug.encoders.coders import Rans
from fedplug.encoders.containers import NOT_FINITE, Buffer, Plan
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.quantizers import Identity
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import NonFiniteError
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.device_array import is_on_device
from fedplug.ops.types import ArraySpec, IndexForm, Scalar, Spec
from fedplug.ops.wide_symbols import BYTE_BITS

__all__ = ["KernelPlan", "plan_of"]

# C functions for `map`, which takes no Python call for an array.
_shape = operator.attrgetter("shape")
_int32 = functools.partial(np.asarray, dtype=np.int32)


def plan_of(encoder: Encoder, specs: Sequence[Spec], places: Sequence[int] = (0,)) -> Plan:
    """Returns the plan of tensors that share an encoder."""
    if isinstance(encoder, Pipeline) and all(isinstance(spec, ArraySpec) for spec in specs):
        return KernelPlan(encoder, specs, places)
    if type(encoder) is Identity and all(isinstance(spec, ArraySpec) for spec in specs):
        return _UncompressedPlan(encoder, specs, places)
    return Plan(encoder, specs, places)


class _UncompressedPlan(Plan):
    """Writes arrays as they lie in memory: the small ones of every model."""

    def __init__(self, encoder: Encoder, specs: Sequence[Spec], places: Sequence[int] = (0,)) -> None:
        super().__init__(encoder, specs, places)
        self._shapes = [spec.shape for spec in specs]
        self._are_floats = [ops.is_floating(spec.dtype) for spec in specs]

    def encode(
        self, xs: Sequence[Any], states: Sequence[State], round_num: Scalar
    ) -> tuple[Sequence[Buffer], Sequence[State]]:
        if list(map(_shape, xs)) != self._shapes:
            return super().encode(xs, states, round_num)  # which refuses it
        framed = []
        for x, header, is_float in zip(xs, self.headers, self._are_floats, strict=True):
            if is_float and not kernels.all_finite(x):
                raise NonFiniteError(NOT_FINITE)
            framed.append(kernels.frame(np.ascontiguousarray(x), header))
        return framed, states


class KernelPlan(Plan):
    """Encodes the arrays that share a pipeline, in one call of each kernel that there is for its stages."""

    encoder: Pipeline

    def __init__(self, encoder: Pipeline, specs: Sequence[Spec], places: Sequence[int] = (0,)) -> None:
        super().__init__(encoder, specs, places)
        self._shapes = [spec.shape for spec in specs]
        self._dtypes = [spec.dtype for spec in specs]
        self._sizes = list(map(ops.num_elements, specs))
        self._are_wide = all(spec.dtype == ops.wide_dtype(spec.dtype) for spec in specs)
        self._values = values = encoder.values
        sparsifier, quantizer, self._entropy_coder, index_coder = encoder.by_role
        self._is_dense = sparsifier is None
        self._is_lossy_dense = self._is_dense and not (values.lossless or quantizer.error_feedback)
        is_written = not self._is_dense and (quantizer.uncompressed or not values.lossless)
        self._index_form = index_coder.kernel_form if is_written else None
        self._no_states: list[State] = [{} for _ in specs]
        self._symbols: list[PackedSymbols] | None = None
        if self._is_dense and self._entropy_coder is not None:
            self._symbols = list(map(values.symbols, self._sizes, self._dtypes))

    def encode(
        self, xs: Sequence[Any], states: Sequence[State], round_num: Scalar
    ) -> tuple[Sequence[Buffer], Sequence[State]]:
        if list(map(_shape, xs)) != self._shapes:
            return super().encode(xs, states, round_num)  # which refuses it
        if self._index_form is not None:
            return self._encode_entries(xs, states, int(round_num), self._index_form)
        if self._is_dense and all(map(is_on_device, xs)):
            return self._encode_on_device(xs, states, int(round_num))
        if self._is_lossy_dense:
            return self._encode_dense(xs, int(round_num)), self._no_states
        return super().encode(xs, states, round_num)

    def _encode_entries(
        self, xs: Sequence[Any], states: Sequence[State], round_num: int, form: IndexForm
    ) -> tuple[list[bytes], Sequence[State]]:
        sparsifier = self.encoder.by_role.sparsifier
        assert sparsifier is not None
        wide = xs if self._are_wide else list(map(ops.widened, xs))
        selections = sparsifier.grouped_select(wide, states, round_num)
        exact, indices, chosen_states = zip(*selections, strict=True)
        next_states: Sequence[State] = chosen_states
        sent: Sequence[NDArray[np.generic]] = exact
        lost: list[NDArray[np.generic]] = []
        if not self._are_wide:
            sent = list(map(np.asarray, map(ops.narrowed, exact, self._dtypes)))
        if not self._values.lossless:
            codes, lost = self._values.quantize_each(sent, round_num, exact if any(next_states) else None)
            if self._entropy_coder is not None:
                each = zip(codes, sent, strict=True)
                codes = [np.asarray(self._values.coded(code, x.size, x.dtype)) for code, x in each]
            sent = codes
        elif sent is not exact and any(next_states):
            with sums_may_overflow():
                lost = [whole - ops.widened(short) for whole, short in zip(exact, sent, strict=True)]
        if lost:
            if not all(map(kernels.all_finite, lost)):
                where = f"the error of {self._values.wire_id}, which the residual would keep,"
                raise NonFiniteError(f"{where} holds a NaN or an infinity")
            next_states = sparsifier.update_residuals(next_states, lost, indices)
        places = list(map(_int32, indices))
        framed = kernels.frame_entries_of_each(places, self._sizes, sent, self.headers, form=form)
        return framed, next_states

    def _encode_dense(self, xs: Sequence[Any], round_num: int) -> list[bytes]:
        vectors = [x.reshape(-1) for x in xs]
        quantizer = self._values.kernel_quantizer
        if self._entropy_coder is None and quantizer is not None:
            form, seed = quantizer.form_in(round_num), quantizer.kernel_seed(round_num)
            each = zip(vectors, self.headers, strict=True)
            return [kernels.frame_values(vector, header, **form, seed=seed) for vector, header in each]
        codes, _ = self._values.quantize_each(vectors, round_num, None)
        return self._framed(codes)

    def _encode_on_device(
        self, xs: Sequence[Any], states: Sequence[State], round_num: int
    ) -> tuple[list[bytes], Sequence[State]]:
        """Quantizes and packs on the device. Entropy coders run on the host."""
        quantizer = self._values.kernel_quantizer
        assert quantizer is not None  # no other one executes on a device
        residuals = [state["residual"] for state in states] if quantizer.error_feedback else None
        codes, after = quantizer.encode_on_device(xs, residuals, round_num)
        next_states: list[Any] = [{"residual": residual} for residual in after]
        return self._framed(codes), next_states or self._no_states

    def _framed(self, codes: Sequence[NDArray[np.uint8]]) -> list[bytes]:
        """Returns the containers of the quantizer's bytes, with the symbols in the entropy coder's code."""
        if self._symbols is None:
            return kernels.frame_of_each(codes, self.headers)
        framed = []
        for code, symbols, header in zip(codes, self._symbols, self.headers, strict=True):
            start, number, bits = symbols
            if type(self._entropy_coder) is Rans and bits <= BYTE_BITS:
                framed.append(kernels.frame_symbols(code, start, number, header, bits=bits))
            else:
                framed.append(kernels.frame(self._values.shortened(code, symbols), header))
        return framed
