"""One function, three executions: on NumPy arrays, on TensorFlow's tensors, on arrays of a CUDA device.

Must not know any op, and must not import TensorFlow: where no tensor comes in it need not be installed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from fedplug.errors import CapabilityError
from fedplug.ops.device_array import DeviceArray

__all__ = ["Array", "DType", "Spec", "also_on_tensors", "are_of_tensorflow"]

Array: TypeAlias = Any
"""A NumPy array, a TensorFlow tensor or a `DeviceArray`."""

DType: TypeAlias = Any
"""The dtype of such an array: of NumPy, or of TensorFlow."""

Spec: TypeAlias = Any
"""What is known of such an array: a `fedplug.ops.ArraySpec`, or a `tf.TensorSpec`."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Kind: TypeAlias = Literal["tensorflow", "device"]
"""The kinds of arrays that are not NumPy's."""

_DEVICE_OPS = "fedplug_cuda.ops"
"""The package with the ops for a `DeviceArray`."""

_others: set[type] = set()
"""Types seen that run on NumPy arrays; no lists."""


def also_on_tensors(on_arrays: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes of a function on NumPy arrays one that also takes TensorFlow's tensors and device arrays.

    These go to the function of the same name in the module of the same name in another package: for tensors
    in ``_tensorflow`` beside it, for a `DeviceArray` in ``fedplug_cuda.ops``. A call that names a
    ``lowering`` goes to TensorFlow's, too. Each package is imported when its first array comes.
    """
    package, _, module = on_arrays.__module__.rpartition(".")
    homes: dict[_Kind, str] = {"tensorflow": f"{package}._tensorflow", "device": _DEVICE_OPS}

    @functools.cache
    def implementation(kind: _Kind) -> Callable[_P, _R]:
        try:
            home = importlib.import_module(f"{homes[kind]}.{module}")
            found: Callable[_P, _R] = getattr(home, on_arrays.__name__)
        except (ImportError, AttributeError) as error:
            if kind == "tensorflow":
                raise
            raise CapabilityError(
                f"{on_arrays.__name__} has no CUDA kernel; copy the arrays to the host for this encoder"
            ) from error
        return found

    @functools.wraps(on_arrays)
    def dispatch(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if "tensorflow" in sys.modules or "fedplug_cuda" in sys.modules:  # elsewhere there are only arrays
            values: Any = (*args, *kwargs.values()) if kwargs else args
            if not _others.issuperset(map(type, values)):  # quick, as encoders of small arrays do little else
                if kind := _kind_of(values):
                    return implementation(kind)(*args, **kwargs)
                _others.update(kind for kind in map(type, values) if kind is not list and kind is not tuple)
        if kwargs and kwargs.get("lowering") is not None:
            return implementation("tensorflow")(*args, **kwargs)
        return on_arrays(*args, **kwargs)

    return dispatch


def are_of_tensorflow(values: Iterable[Any]) -> bool:
    """Whether the first value that is no NumPy array is a tensor, variable, spec or dtype of TensorFlow."""
    return _kind_of(values) == "tensorflow"


def _kind_of(values: Iterable[Any]) -> _Kind | None:
    """The kind of the first value, or one in a list among them, that is no NumPy array."""
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
