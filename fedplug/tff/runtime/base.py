"""The contract of a runtime, and the choice of one by its name in the registry."""

from __future__ import annotations

import abc
from types import TracebackType

import tensorflow_federated as tff

from fedplug.errors import PluginError
from fedplug.registry.resolve import find, resolve
from fedplug.tff.structures import Structure

__all__ = ["Runtime", "RuntimeHandle", "use_runtime"]


class Runtime(tff.framework.SyncContext):
    """A TFF execution context with a name in the registry.

    `fedplug.testing.RuntimeSuite` checks these promises. Several threads may call `invoke` at once.
    A result equals that of the runtime ``"inprocess"``, bit for bit where no floating-point sum is rounded.
    """

    runs_custom_ops: bool = False
    """Whether computations may hold custom ops. If not, processes are built from stock TensorFlow ops."""

    @abc.abstractmethod
    def invoke(self, comp: tff.Computation, arg: Structure) -> Structure:
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


class RuntimeHandle:
    """A runtime in use. As a context manager it restores the previous default context and closes the runtime.

    Args:
        name: The runtime's name in the registry.
        context: The runtime.

    Attributes:
        name: The runtime's name in the registry.
        context: The TFF execution context. TFF keeps its default per thread; in another thread, set it with
            `tff.framework.set_default_context(handle.context)`. One context serves any number of threads.
    """

    def __init__(self, name: str, context: Runtime) -> None:
        self.name = name
        self.context = context
        self._previous = tff.framework.get_context_stack().current
        tff.framework.set_default_context(context)

    def __enter__(self) -> RuntimeHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tff.framework.set_default_context(self._previous)
        self.context.close()

    def __repr__(self) -> str:
        return f"<fedplug runtime {self.name!r}>"


def use_runtime(name: str, **options: object) -> RuntimeHandle:
    """Runs the TFF computations of this thread on a runtime from now on, or within a `with` block.

    Args:
        name: `"inprocess"` (this process, custom ops work), `"native"` (TFF's stock worker process), or the
            name of a plugin's runtime, such as `"ray"` of fedplug-ray (see docs/scaling.md).
        **options: The arguments of the function that makes the runtime: `create_sync_execution_context`,
            `native.context.create_native_execution_context` or `fedplug_ray.create_ray_execution_context`.

    Raises:
        MissingDependencyError: An extra of fedplug brings the runtime, and is not installed.
        PluginError: The plugin that declares the runtime is broken.
        UnknownNameError: No runtime of that name is installed.
    """
    context = resolve("runtime", name)(**options)
    if not isinstance(context, Runtime):
        entry = find("runtime", name)
        made = f"{type(context).__module__}.{type(context).__qualname__}"
        raise PluginError(
            f"runtime {name!r} of {entry.origin} is a {made}; its class must be derived from "
            f"fedplug.tff.runtime.Runtime; tell the authors of {entry.distribution}"
        )
    return RuntimeHandle(name, context)
