"""The types of the arguments and results of ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes  # noqa: F401  # teaches NumPy the name bfloat16
import numpy as np

from fedplug.kernels.index_code import IndexForm
from fedplug.kernels.symbol_code import SymbolForm
from fedplug.kernels.topk import OnNonFinite
from fedplug.kernels.value_code import ValueForm

__all__ = [
    "AboveThreshold",
    "Array",
    "ArraySpec",
    "ChunkedTopK",
    "DType",
    "GroupedTopK",
    "GroupedTopKUpdate",
    "IndexForm",
    "OnNonFinite",
    "Spec",
    "SumAndLargest",
    "SymbolForm",
    "TakenFromSum",
    "TopK",
    "TopKMomentum",
    "TopKUpdate",
    "ValueForm",
]

Array: TypeAlias = Any
"""A NumPy array, a TensorFlow tensor or a `DeviceArray`."""

DType: TypeAlias = Any
"""The dtype of an array: NumPy's or TensorFlow's."""

Spec: TypeAlias = Any
"""The shape and dtype of an array: an `ArraySpec` or a `tf.TensorSpec`."""


@dataclass(frozen=True)
class ArraySpec:
    """Of a NumPy array what `tf.TensorSpec` is of a tensor.

    Attributes:
        shape: All dimensions.
        dtype: Anything NumPy takes for a dtype, and "bfloat16".
        name: Of a model's tensor, where rules go by names.
    """

    shape: tuple[int, ...]
    dtype: Any
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(map(int, self.shape)))
        if not isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", np.dtype(self.dtype))


class TopK(NamedTuple):
    """What `topk_residual` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of ``delta``.
        indices: Their places in the flattened update, strictly ascending. Shape ``[min(k, n)]``, int32.
        residual: What is left for the next round. Shape and dtype of ``delta``.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: Array
    indices: Array
    residual: Array
    nonfinite: Array


class GroupedTopK(NamedTuple):
    """What `grouped_topk_residual` returns.

    Attributes:
        values: The entries taken, tensor after tensor, with their sign. ``[min(k, n)]``, the dtype of the
            deltas.
        indices: Their places in their own flattened tensor, strictly ascending in each. ``[min(k, n)]``,
            int32.
        row_splits: Entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of tensor t. ``[tensors +
            1]``, int64.
        residuals: What is left for the next round. Shapes and dtype of the deltas.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: Array
    indices: Array
    row_splits: Array
    residuals: list[Array]
    nonfinite: Array


class TopKUpdate(NamedTuple):
    """What `topk_residual_update` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of the residual.
        indices: Their places in the flattened update, strictly ascending. Shape ``[min(k, n)]``, int32.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: Array
    indices: Array
    nonfinite: Array


class GroupedTopKUpdate(NamedTuple):
    """What `grouped_topk_residual_update` returns.

    Attributes:
        values: The m entries taken, tensor after tensor, with their sign. ``[m]``, the dtype of the
            residuals.
        indices: Their places in their own flattened tensor, strictly ascending in each. ``[m]``, int32.
        row_splits: Entries ``row_splits[t]`` up to ``row_splits[t + 1]`` are those of tensor t. ``[tensors +
            1]``, int64.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: Array
    indices: Array
    row_splits: Array
    nonfinite: Array


class TopKMomentum(NamedTuple):
    """What `topk_momentum` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[min(k, n)]``, the dtype of ``gradient``.
        indices: Their places in the flattened gradient, strictly ascending. Shape ``[min(k, n)]``, int32.
        velocity: For the next round. Shape and dtype of ``gradient``.
        residual: For the next round. Shape and dtype of ``gradient``.
        nonfinite: How many NaN or infinite sums were dropped. Scalar, int64.
    """

    values: Array
    indices: Array
    velocity: Array
    residual: Array
    nonfinite: Array


class ChunkedTopK(NamedTuple):
    """What `chunked_topk_residual` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[c]``, the dtype of ``delta``.
        indices: Their places in the flattened update, strictly ascending. Shape ``[c]``, int32.
        residual: What is left for the next round. Shape and dtype of ``delta``.
    """

    values: Array
    indices: Array
    residual: Array


class AboveThreshold(NamedTuple):
    """What `threshold_residual` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[c]``, the dtype of ``delta``.
        indices: Their places in the flattened update, strictly ascending. Shape ``[c]``, int32.
        residual: What is left for the next round. Shape and dtype of ``delta``.
    """

    values: Array
    indices: Array
    residual: Array


class TakenFromSum(NamedTuple):
    """What `take_from_sum` returns.

    Attributes:
        values: The entries taken, with their sign. Shape ``[k]``, the dtype of ``delta``.
        residual: What is left for the next round. Shape and dtype of ``delta``.
    """

    values: Array
    residual: Array


class SumAndLargest(NamedTuple):
    """What `sum_and_largest` returns.

    Attributes:
        sum: ``delta + residual``, shape and dtype of both. It need not be finite.
        largest: The largest magnitude in it: 0 of no elements, NaN where one is NaN. Scalar, the same dtype.
    """

    sum: Array
    largest: Array
