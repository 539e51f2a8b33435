"""Stops calls of TensorFlow functions from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import cancellation

__all__ = ["Cancellation"]


class Cancellation:
    """Cancels running and later calls that use it. Any thread may use it."""

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
        """Runs a call with a manager that no other running call has.

        TensorFlow cancels the manager if the call fails.
        """
        manager = self._manager()
        results = call(manager)
        self._idle.append(manager)  # reusable: nothing was cancelled
        return results

    def _manager(self) -> cancellation.CancellationManager:
        with self._changing:
            self.check()
            if self._idle:
                return self._idle.pop()
            self._managers.append(cancellation.CancellationManager())
            return self._managers[-1]
