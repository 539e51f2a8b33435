"""Chooses the function that runs an op, by the type of its arguments.

NumPy arrays run the decorated function. TensorFlow's tensors and device arrays run the functions that its
decorator names. This module imports no TensorFlow: without tensors it need not be installed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from fedplug.errors import CapabilityError
from fedplug.ops.device_array import DeviceArray

__all__ = ["also_on", "of_each"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Function: TypeAlias = Callable[..., Any]

_Kind: TypeAlias = Literal["tensorflow", "device"]
"""The kinds of arrays that are not NumPy's."""

_numpy_types: set[type] = set()
"""Types of arguments that run on NumPy; lists and tuples are never among them."""


def also_on(
    *, tensors: Callable[[], _Function], devices: Callable[[], _Function] | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function of NumPy arrays an op, which takes TensorFlow's tensors and device arrays too.

    A call that names a ``lowering`` runs on TensorFlow, whatever its arguments are.

    Args:
        tensors: A function that returns the function for tensors, for instance
            ``lambda: _tensorflow.topk.topk_residual``. It is called with the first tensor, and may import
            TensorFlow then.
        devices: The same for a `DeviceArray`; None if the op has no CUDA kernel.
    """

    def decorate(on_arrays: Callable[_P, _R]) -> Callable[_P, _R]:
        table = {"tensorflow": tensors, "device": devices or functools.partial(_refuse, on_arrays.__name__)}

        @functools.wraps(on_arrays)
        def dispatch(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if "tensorflow" in sys.modules or "fedplug_cuda" in sys.modules:  # else all arrays are NumPy's
                values: Any = (*args, *kwargs.values()) if kwargs else args
                if not _numpy_types.issuperset(map(type, values)):  # fast, for encoders of small arrays
                    if kind := _kind_of(values):
                        return table[kind]()(*args, **kwargs)  # type: ignore[no-any-return]
                    _numpy_types.update(cls for cls in map(type, values) if cls not in (list, tuple))
            if kwargs and kwargs.get("lowering") is not None:
                return tensors()(*args, **kwargs)  # type: ignore[no-any-return]
            return on_arrays(*args, **kwargs)

        dispatch.implementations = table  # type: ignore[attr-defined]
        return dispatch

    return decorate


def of_each(op: _Function, devices: Callable[[], _Function]) -> _Function:
    """Returns the form of an op for lists: one call if the first list has device arrays, else a loop.

    Args:
        op: The op. Its positional arguments become lists; keyword arguments apply to each call.
        devices: A function that returns the function for lists of device arrays.
    """

    def each(*lists: Sequence[Any], **options: Any) -> list[Any]:
        if all(isinstance(x, DeviceArray) for x in lists[0]):
            return devices()(*lists, **options)  # type: ignore[no-any-return]
        return [op(*arguments, **options) for arguments in zip(*lists, strict=True)]

    return each


def _refuse(name: str) -> _Function:
    raise CapabilityError(f"{name} has no CUDA kernel; copy the arrays to the host for this encoder")


def _kind_of(values: Iterable[Any]) -> _Kind | None:
    """The kind of the first value that is not NumPy's; the values in lists and tuples count."""
    for value in values:
        cls = type(value)
        kind = _kind_of(value) if cls is list or cls is tuple else _kind_of_type(cls)  # type: ignore[arg-type]  # a class is hashable
        if kind is not None:
            return kind
    return None


@functools.cache
def _kind_of_type(cls: type) -> _Kind | None:
    if issubclass(cls, DeviceArray):
        return "device"
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__}
    return None if roots.isdisjoint(("tensorflow", "keras")) else "tensorflow"
