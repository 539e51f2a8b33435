"""The contract of a runtime: a TFF execution context that `fedplug.use_runtime` finds by name."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow_federated as tff

__all__ = ["Runtime"]


class Runtime(tff.framework.SyncContext):
    """A TFF execution context with a name in the registry.

    `fedplug.testing.RuntimeSuite` checks these promises. Several threads may call `invoke` at once.
    A result equals that of the runtime ``"inprocess"``, bit for bit where no floating-point sum is rounded.
    """

    runs_custom_ops: bool = False
    """Whether computations may hold custom ops. If not, processes are built from stock TensorFlow ops."""

    takes_candidates: bool = False
    """Whether an argument may be `Candidates`: a round then ends when enough of the clients are done."""

    @abc.abstractmethod
    def invoke(self, comp: Any, arg: Any) -> Any:
        """Runs a computation and returns its result, with clients' values in client order.

        Args:
            comp: The TFF computation.
            arg: The argument, as TFF packs it, or None.

        Raises:
            ComputationError: A part of the computation failed. A runtime that runs it elsewhere may raise the
                error of that place instead. The message holds TensorFlow's text.
            TypeError: The argument does not fit the computation's type.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Ends everything that the runtime started.

        A later `invoke` raises an error, and a second `close` does nothing.
        """
