"""Errors of computations that keep the TensorFlow type of their cause."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from fedplug.errors import ComputationError

__all__ = ["computation_error"]


def computation_error(message: str, cause: BaseException, client: int | None = None) -> ComputationError:
    """Returns a `ComputationError` that also has the TensorFlow class of `cause`, if that has one.

    Args:
        message: The text of the error.
        cause: The error to replace, which may be a result of this function.
        client: The position of the client. None at the server.
    """
    if not isinstance(cause, tf.errors.OpError):
        return ComputationError(message, client)
    # Without the operation: it cannot be pickled, and it would add its stack to the text.
    attributes = {**vars(cause), "_message": message, "_op": None, "client": client}
    return _restored(_kind_of(cause), message, attributes)


class _TensorFlowComputationError(ComputationError):
    """The base of errors that also have a TensorFlow class."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (_kind_of(self), self.args[0], vars(self))


def _kind_of(error: BaseException) -> type[Any]:
    """Returns the TensorFlow class of an error, also of a result of `computation_error`."""
    kinds = (base for base in type(error).__mro__ if issubclass(base, tf.errors.OpError))
    return next(kind for kind in kinds if not issubclass(kind, ComputationError))


def _restored(kind: Any, message: str, attributes: dict[str, Any]) -> ComputationError:
    both = _class_of_both(kind)
    error = both.__new__(both)  # the constructors of TensorFlow's classes differ
    error.args = (message,)
    vars(error).update(attributes)
    return error


@functools.cache
def _class_of_both(kind: Any) -> type[ComputationError]:
    return type(kind.__name__, (_TensorFlowComputationError, kind), {"__module__": __name__})
