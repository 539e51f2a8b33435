"""One function, two executions: NumPy arrays run at once, TensorFlow's tensors in its graphs.

Must not know any op, and must not import TensorFlow: where no tensor comes in it need not be installed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeAlias, TypeVar

__all__ = ["Array", "DType", "Spec", "also_on_tensors", "are_of_tensorflow"]

Array: TypeAlias = Any
"""A NumPy array or a TensorFlow tensor; all of one call are of the same kind."""

DType: TypeAlias = Any
"""The dtype of such an array: of NumPy, or of TensorFlow."""

Spec: TypeAlias = Any
"""What is known of such an array: a `fedplug.ops.ArraySpec`, or a `tf.TensorSpec`."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_others: set[type] = set()
"""Types seen that are not of TensorFlow, nor lists of anything."""


def also_on_tensors(on_arrays: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes of a function on NumPy arrays one that also takes TensorFlow's tensors.

    These go to the function of the same name in the module of the same name in the package ``_tensorflow``
    beside it, and so does a call that names a ``lowering``: only TensorFlow has those. So what is in
    ``_tensorflow`` may import TensorFlow, as it is imported when the first tensor comes.
    """
    package, _, module = on_arrays.__module__.rpartition(".")
    home = f"{package}._tensorflow.{module}"

    @functools.cache
    def on_tensors() -> Callable[_P, _R]:
        found: Callable[_P, _R] = getattr(importlib.import_module(home), on_arrays.__name__)
        return found

    @functools.wraps(on_arrays)
    def dispatch(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if "tensorflow" in sys.modules:  # where it was never imported, there are no tensors
            values: Any = (*args, *kwargs.values()) if kwargs else args
            if not _others.issuperset(map(type, values)):  # quick, as encoders of small arrays do little else
                if are_of_tensorflow(values):
                    return on_tensors()(*args, **kwargs)
                _others.update(kind for kind in map(type, values) if kind is not list and kind is not tuple)
        if kwargs and kwargs.get("lowering") is not None:
            return on_tensors()(*args, **kwargs)
        return on_arrays(*args, **kwargs)

    return dispatch


def are_of_tensorflow(values: Iterable[Any]) -> bool:
    """Whether a value, or one in a list among them, is a tensor, variable, spec or dtype of TensorFlow."""
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            if are_of_tensorflow(value):
                return True
        elif _is_of_tensorflow(kind):  # type: ignore[arg-type]  # a class is hashable
            return True
    return False


@functools.cache
def _is_of_tensorflow(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in ("tensorflow", "keras") for base in kind.__mro__)
