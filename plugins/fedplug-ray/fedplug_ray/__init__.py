"""TFF rounds on a Ray cluster: the runtime ``"ray"``.

The public names are imported on first use: `fedplug plugins list` starts without TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_ray.context import create_ray_execution_context

__all__ = ["create_ray_execution_context"]

_HOMES = {"create_ray_execution_context": "fedplug_ray.context"}

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
