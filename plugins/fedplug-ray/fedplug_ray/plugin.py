"""The hooks that fedplug calls: they declare the runtime and the store, which are imported on first use."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import RuntimeSpec, StoreSpec

__all__: list[str] = []


@hookimpl
def fedplug_runtimes() -> list[RuntimeSpec]:
    """Declares the runtime."""
    return [
        RuntimeSpec(
            name="ray",
            target="fedplug_ray.runtime.context:create_ray_execution_context",
            summary="the workers of a Ray cluster; custom ops work",
            examples=("ray(workers=1)",),
        )
    ]


@hookimpl
def fedplug_stores() -> list[StoreSpec]:
    """Declares the store."""
    return [
        StoreSpec(
            name="ray",
            target="fedplug_ray.shards.store:RayStore",
            summary="on the disks of a Ray cluster's machines, where the clients run",
            examples=("ray+sqlite:///{folder}",),
        )
    ]
