"""The types of the arguments and results of ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np

from fedplug.kernels.arguments import whole
from fedplug.types import Array, DType, IndexForm, Scalar, Spec, ValueForm, ValueOptions

__all__ = [
    "Array",
    "ArraySpec",
    "DType",
    "GroupedTopK",
    "IndexForm",
    "PackedValues",
    "Scalar",
    "Spec",
    "TakenFromSum",
    "TopK",
    "ValueForm",
    "ValueOptions",
]


@dataclass(frozen=True)
class ArraySpec:
    """The shape and dtype of a NumPy array, like `tf.TensorSpec` of a tensor.

    Attributes:
        shape: All dimensions.
        dtype: The dtype. Accepts anything that NumPy accepts, and "bfloat16".
        name: The name of a model's tensor, for rules that match names.
    """

    shape: tuple[int, ...]
    dtype: DType
    name: str | None = None

    def __post_init__(self) -> None:
        if type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(whole("a dimension", each, 0) for each in self.shape))
        if not isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", np.dtype(self.dtype))


class TopK(NamedTuple):
    """The result of `fedplug.ops.topk_residual` and `fedplug.ops.chunked_topk_residual`.

    Attributes:
        values: The c selected entries. ``[c]``, the dtype of ``delta``.
        indices: Their flat indices, strictly ascending. ``[c]``, int32.
        residual: The residual for the next round. The shape and dtype of ``delta``.
    """

    values: Array
    indices: Array
    residual: Array


class GroupedTopK(NamedTuple):
    """The result of `fedplug.ops.grouped_topk_residual`.

    Attributes:
        values: The selected entries, tensor after tensor. ``[min(k, n)]``, the dtype of the deltas.
        indices: Their flat indices within their tensor, strictly ascending in each. ``[min(k, n)]``, int32.
        row_splits: Tensor t has the entries ``row_splits[t]`` up to ``row_splits[t + 1]``. ``[tensors + 1]``,
            int64.
        residuals: The residuals for the next round. The shapes and dtype of the deltas.
    """

    values: Array
    indices: Array
    row_splits: Array
    residuals: list[Array]


class TakenFromSum(NamedTuple):
    """The result of `fedplug.ops.take_from_sum`.

    Attributes:
        values: The entries at the given indices. ``[k]``, the dtype of ``delta``.
        residual: The residual for the next round. The shape and dtype of ``delta``.
    """

    values: Array
    residual: Array


class PackedValues(NamedTuple):
    """The values of a payload that a device decodes: the code of a quantizer, which the host has checked.

    Attributes:
        code: The code. uint8 ``[bytes]``.
        size: Number of values.
        dtype: The dtype of the values.
        form: The arguments of `fedplug.ops.decode_values`: ``form``, and ``bits`` and ``block_size`` if the
            form has them.
        largest: The largest magnitude of the values.
    """

    code: Array
    size: int
    dtype: DType
    form: ValueOptions
    largest: float
