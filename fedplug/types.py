"""The types of the arguments of kernels and ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Array",
    "ByteBuffer",
    "DType",
    "IndexForm",
    "Scalar",
    "Spec",
    "ValueForm",
    "ValueOptions",
    "Values",
]

IndexForm: TypeAlias = Literal["rice", "gaps"]
ValueForm: TypeAlias = Literal["float16", "bfloat16", "qsgd", "nearest", "sign", "codebook", "bounded", "bfp"]


_Operand: TypeAlias = Any
"""A number or an array, which NumPy and TensorFlow type in ways of their own."""


DType: TypeAlias = "np.dtype[Any] | Any"
"""The dtype of an array: NumPy's, or TensorFlow's, which comes without types."""


class Array(Protocol):
    """A NumPy array or a TensorFlow tensor: the common operators. `fedplug.ops` has functions for the rest.

    A `DeviceArray` has no arithmetic and is not one. Functions that also take it say so. Kernels take NumPy
    arrays, and refuse a tensor when they are called.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """All dimensions."""

    @property
    def dtype(self) -> DType:
        """The type of its elements."""

    def __array__(self) -> NDArray[Any]: ...
    def __len__(self) -> int: ...
    def __int__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __index__(self) -> int: ...
    def __float__(self) -> float: ...
    def __getitem__(self, key: _Operand, /) -> Array: ...
    def __invert__(self) -> Array: ...
    def __neg__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __lt__(self, other: _Operand, /) -> Array: ...
    def __le__(self, other: _Operand, /) -> Array: ...
    def __gt__(self, other: _Operand, /) -> Array: ...
    def __ge__(self, other: _Operand, /) -> Array: ...
    def __and__(self, other: _Operand, /) -> Array: ...
    def __rand__(self, other: _Operand, /) -> Array: ...
    def __or__(self, other: _Operand, /) -> Array: ...
    def __ror__(self, other: _Operand, /) -> Array: ...
    def __add__(self, other: _Operand, /) -> Array: ...
    def __radd__(self, other: _Operand, /) -> Array: ...
    def __sub__(self, other: _Operand, /) -> Array: ...
    def __rsub__(self, other: _Operand, /) -> Array: ...
    def __mul__(self, other: _Operand, /) -> Array: ...
    def __rmul__(self, other: _Operand, /) -> Array: ...
    def __truediv__(self, other: _Operand, /) -> Array: ...
    def __rtruediv__(self, other: _Operand, /) -> Array: ...
    def __floordiv__(self, other: _Operand, /) -> Array: ...
    def __rfloordiv__(self, other: _Operand, /) -> Array: ...
    def __mod__(self, other: _Operand, /) -> Array: ...
    def __pow__(self, other: _Operand, /) -> Array: ...
    def __rpow__(self, other: _Operand, /) -> Array: ...


Values: TypeAlias = "NDArray[Any]"
"""An array as a result. Its dtype follows from the arguments, so type checkers allow all arithmetic on it."""


ByteBuffer: TypeAlias = "bytes | bytearray | memoryview | Array"
"""Bytes that a kernel reads as they lie."""


Scalar: TypeAlias = "Array | float | np.number[Any]"
"""A number, or an array or tensor without dimensions."""


class Spec(Protocol):
    """The shape and dtype of an array: an `ArraySpec` or a `tf.TensorSpec`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """All dimensions."""

    @property
    def dtype(self) -> DType:
        """The type of its elements."""

    @property
    def name(self) -> str | None:
        """The name of a model's tensor, for rules that match names."""


class _ValueForm(TypedDict):
    form: ValueForm


class ValueOptions(_ValueForm, total=False):
    """The arguments that `fedplug.ops.encode_values` and `decode_values` share; the form has no others."""

    bits: Array | int
    block_size: int
    relative: float
