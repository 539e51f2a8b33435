"""TFF rounds and client state on a Ray cluster: the runtime ``"ray"`` and the store ``ray+sqlite:///folder``.

The public names are imported on first use: a shard starts without TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_ray.runtime.context import create_ray_execution_context
    from fedplug_ray.runtime.messages import on_worker

__all__ = ["create_ray_execution_context", "on_worker"]

_HOMES = {
    "create_ray_execution_context": "fedplug_ray.runtime.context",
    "on_worker": "fedplug_ray.runtime.messages",
}


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
