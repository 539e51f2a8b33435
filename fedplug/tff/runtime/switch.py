"""Sets TFF's default execution context by the name of a runtime."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import PluginError
from fedplug.registry.resolve import find, resolve
from fedplug.tff.runtime.base import Runtime

__all__ = ["RuntimeHandle", "use_runtime"]


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


def use_runtime(name: str, **options: Any) -> RuntimeHandle:
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
