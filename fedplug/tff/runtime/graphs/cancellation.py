"""Stops calls of TensorFlow functions from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import cancellation

__all__ = ["Cancellation"]


class Cancellation:
    """Stops the calls that were given it: those under way and those to come. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._managers: list[cancellation.CancellationManager] = []
        self._idle: list[cancellation.CancellationManager] = []
        self._cancelled = False

    def cancel(self) -> None:
        """Makes running and later calls end with `tf.errors.CancelledError`."""
        with self._changing:
            self._cancelled = True
            managers = list(self._managers)
        for manager in managers:
            manager.start_cancel()

    def check(self) -> None:
        """Raises `tf.errors.CancelledError` after `cancel`."""
        if self._cancelled:
            raise tf.errors.CancelledError(None, None, "the computation was cancelled")

    def run(self, call: Callable[[cancellation.CancellationManager], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Makes a call, with a manager that no other call under way has.

        TensorFlow cancels the one it is given when the call fails.
        """
        manager = self._manager()
        results = call(manager)
        self._idle.append(manager)  # as it was: nothing was cancelled
        return results

    def _manager(self) -> cancellation.CancellationManager:
        with self._changing:
            self.check()
            if self._idle:
                return self._idle.pop()
            self._managers.append(cancellation.CancellationManager())
            return self._managers[-1]
