"""The hook that fedplug calls: it declares the runtime, which is imported on first use."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import RuntimeSpec

__all__: list[str] = []


@hookimpl
def fedplug_runtimes() -> list[RuntimeSpec]:
    """Declares the runtime."""
    return [
        RuntimeSpec(
            name="ray",
            target="fedplug_ray.context:create_ray_execution_context",
            summary="the workers of a Ray cluster; custom ops work",
            examples=("ray(workers=1)",),
        )
    ]
