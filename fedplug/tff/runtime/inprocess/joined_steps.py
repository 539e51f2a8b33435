"""Calls TensorFlow once for a sequence of steps, not once for each function in it.

Rounds repeat, so the functions that the first round calls one after the other become one function.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from fedplug.tff.runtime.graphs.datasets_with_state import DatasetWithState
from fedplug.tff.runtime.graphs.joined_calls import JoinedFunction, NotJoinable
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.values import Value, flatten

__all__ = ["JoinedSteps"]

Steps = Callable[[tuple[Value, ...]], tuple[Value, ...]]


class JoinedSteps:
    """Steps that run repeatedly, with values of the same types."""

    def __init__(self) -> None:
        self._tracing = threading.Lock()
        self._traced = False
        self._function: JoinedFunction | None = None
        self._result: tuple[Value, ...] = ()  # the structure of the result, with None for the leaves

    def run(self, steps: Steps, values: tuple[Value, ...], invocation: Invocation) -> tuple[Value, ...]:
        """Returns `steps(values)`, and raises the errors of the steps.

        Args:
            steps: A function that calls functions of its arguments. It is traced in the first call, and must
                do the same in later calls. If it reads values, it runs without tracing.
            values: A tuple of values.
            invocation: The part of a call that the steps belong to.
        """
        leaves = flatten(values)
        with self._tracing:
            if not self._traced:
                self._trace(steps, values, leaves)
                self._traced = True
        if self._function is None:
            return steps(values)
        results = self._function(leaves, invocation.cancellation, one_thread=invocation.one_thread)
        result: tuple[Value, ...] = _arranged(self._result, iter(results))
        return result

    def _trace(self, steps: Steps, values: tuple[Value, ...], leaves: list[Value]) -> None:
        if not all(isinstance(leaf, tf.Tensor | DatasetWithState) for leaf in leaves):
            return

        def make(symbols: list[tf.Tensor]) -> list[tf.Tensor]:
            self._result = steps(_arranged(values, iter(symbols)))
            return flatten(self._result)

        with contextlib.suppress(NotJoinable):
            self._function = JoinedFunction(make, [leaf.dtype for leaf in leaves])
        self._result = _arranged(self._result, itertools.repeat(None))


def _arranged(like: Value, leaves: Iterator[Value]) -> Value:
    """Returns the leaves in the tuple structure of `like`."""
    return tuple([_arranged(part, leaves) for part in like]) if type(like) is tuple else next(leaves)
