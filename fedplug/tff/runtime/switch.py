"""Sets TFF's default execution context by name."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import UnknownNameError
from fedplug.tff.runtime.inprocess.context import create_sync_execution_context
from fedplug.tff.runtime.native.context import create_native_execution_context

__all__ = ["RuntimeHandle", "use_runtime"]


def _create_ray_execution_context(**options: Any) -> Any:
    from fedplug.tff.runtime.ray import create_ray_execution_context  # Ray is optional

    return create_ray_execution_context(**options)


_RUNTIMES: dict[str, Callable[..., Any]] = {
    "inprocess": create_sync_execution_context,
    "native": create_native_execution_context,
    "ray": _create_ray_execution_context,
}


class RuntimeHandle:
    """The runtime in use; as a context manager, it brings back the one before and closes.

    Attributes:
        name: `"inprocess"`, `"native"` or `"ray"`.
        context: The TFF execution context. TFF keeps its default per thread; in another thread, set it with
            `tff.framework.set_default_context(handle.context)`. One context serves any number of threads.
    """

    def __init__(self, name: str, context: tff.framework.SyncContext) -> None:
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
    """Makes TFF computations of this thread run on a runtime from now on, or within a `with` block.

    Args:
        name: `"inprocess"` (this process, custom ops work), `"native"` (TFF's stock worker process) or
            `"ray"` (the workers of a Ray cluster, custom ops work; see docs/scaling.md).
        **options: Of `create_sync_execution_context`, `native.create_native_execution_context` or
            `ray.create_ray_execution_context`.

    Raises:
        MissingDependencyError: `"ray"`, and Ray is not installed.
        UnknownNameError: There is no runtime of that name.
    """
    if name not in _RUNTIMES:
        raise UnknownNameError("runtime", name, _RUNTIMES)
    return RuntimeHandle(name, _RUNTIMES[name](**options))
