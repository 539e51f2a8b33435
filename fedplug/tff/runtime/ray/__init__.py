"""Rounds on many machines: TFF computations whose clients are spread over the workers of a Ray cluster.

`fedplug.use_runtime("ray", ...)` chooses it; docs/scaling.md tells how it works. Needs `fedplug[ray]`.
What is here is imported on first use, see `fedplug.tff.runtime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.errors import MissingDependencyError
from fedplug.registry.first_use import imported_on_first_use

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError('the "ray" runtime', error.name or "") from error

if TYPE_CHECKING:
    from fedplug.tff.runtime.ray.client_values import ClientHandle
    from fedplug.tff.runtime.ray.context import create_ray_execution_context
    from fedplug.tff.runtime.ray.messages import on_worker

__all__ = ["ClientHandle", "create_ray_execution_context", "on_worker"]

_HOMES = {
    "ClientHandle": "fedplug.tff.runtime.ray.client_values",
    "create_ray_execution_context": "fedplug.tff.runtime.ray.context",
    "on_worker": "fedplug.tff.runtime.ray.messages",
}


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
