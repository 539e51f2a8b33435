"""Rounds on many machines: TFF computations whose clients are spread over the workers of a Ray cluster.

`fedplug.use_runtime("ray", ...)` chooses it; docs/scaling.md tells how it works. Needs `fedplug[ray]`.
"""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError('the "ray" runtime', error.name or "") from error

from fedplug.runtime.ray.client_values import ClientHandle, on_worker
from fedplug.runtime.ray.context import create_ray_execution_context

__all__ = ["ClientHandle", "create_ray_execution_context", "on_worker"]
