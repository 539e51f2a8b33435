"""Chooses the function that runs an op, by the type of its arguments.

NumPy arrays run the decorated function, TensorFlow's tensors the function that its decorator names, and
device arrays that of their backend. This module imports no TensorFlow, which need not be installed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

from fedplug.errors import CapabilityError
from fedplug.ops.device_array import DeviceArray

__all__ = ["also_on", "of_each"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Function: TypeAlias = Callable[..., Any]

_numpy_types: set[type] = set()
"""Types of arguments that run on NumPy. Lists and tuples are never among them."""


def also_on(*, tensors: Callable[[], _Function]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Makes a function of NumPy arrays an op, which takes TensorFlow's tensors and device arrays too.

    Device arrays run the function of this name of their `Backend`. A call that names a ``lowering`` runs on
    TensorFlow, whatever its arguments are.

    Args:
        tensors: A function that returns the function for tensors, for instance
            ``lambda: _tensorflow.topk.topk_residual``. It is called with the first tensor, and may import
            TensorFlow then.
    """

    def decorate(on_arrays: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(on_arrays)
        def dispatch(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if "tensorflow" in sys.modules or DeviceArray.__subclasses__():  # else all arrays are NumPy's
                values: Any = (*args, *kwargs.values()) if kwargs else args
                if not _numpy_types.issuperset(map(type, values)):  # fast, for encoders of small arrays
                    first = _first_other(values)
                    if isinstance(first, DeviceArray):
                        return _on_device(first, on_arrays.__name__)(*args, **kwargs)  # type: ignore[no-any-return]
                    if first is not None:
                        return tensors()(*args, **kwargs)  # type: ignore[no-any-return]
                    _numpy_types.update(cls for cls in map(type, values) if cls not in (list, tuple))
            if kwargs and kwargs.get("lowering") is not None:
                return tensors()(*args, **kwargs)  # type: ignore[no-any-return]
            return on_arrays(*args, **kwargs)

        dispatch.tensors = tensors  # type: ignore[attr-defined]
        return dispatch

    return decorate


def of_each(op: _Function, name: str) -> _Function:
    """Returns the form of an op for lists: one call if the first list has device arrays, else a loop.

    Args:
        op: The op. Its positional arguments become lists. Keyword arguments apply to each call.
        name: The name of the function for lists in a `Backend`.
    """

    def each(*lists: Sequence[Any], **options: Any) -> list[Any]:
        if all(isinstance(x, DeviceArray) for x in lists[0]):
            return _on_device(lists[0][0], name)(*lists, **options)  # type: ignore[no-any-return]
        return [op(*arguments, **options) for arguments in zip(*lists, strict=True)]

    return each


def _on_device(x: DeviceArray, name: str) -> _Function:
    found: _Function | None = getattr(x.backend, name, None)
    if found is None:
        raise CapabilityError(f"{name} has no CUDA kernel; copy the arrays to the host for this encoder")
    return found


def _first_other(values: Iterable[Any]) -> object:
    """Returns the first value that is not NumPy's, or None. The values in lists and tuples count."""
    for value in values:
        cls = type(value)
        if cls is list or cls is tuple:
            value = _first_other(value)
            if value is not None:
                return value
        elif _is_other(cls):  # type: ignore[arg-type]  # a class is hashable
            return value
    return None


@functools.cache
def _is_other(cls: type) -> bool:
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__}
    return issubclass(cls, DeviceArray) or not roots.isdisjoint(("tensorflow", "keras"))
