"""Rounds on many machines: TFF computations whose clients are spread over the workers of a Ray cluster.

`fedplug.use_runtime("ray", ...)` chooses it; docs/scaling.md tells how it works. Needs `fedplug[ray]`.
What is here is imported on first use, see `fedplug.runtime`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedplug.errors import MissingDependencyError

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError('the "ray" runtime', error.name or "") from error

if TYPE_CHECKING:
    from fedplug.runtime.ray.client_values import ClientHandle
    from fedplug.runtime.ray.context import create_ray_execution_context
    from fedplug.runtime.ray.messages import on_worker

__all__ = ["ClientHandle", "create_ray_execution_context", "on_worker"]

_MODULES = {
    "ClientHandle": "client_values",
    "create_ray_execution_context": "context",
    "on_worker": "messages",
}


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'fedplug.runtime.ray' has no attribute {name!r}")
        return getattr(importlib.import_module(f"fedplug.runtime.ray.{_MODULES[name]}"), name)
