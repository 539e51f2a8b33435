"""The hook that fedplug calls: it declares the backend, which is imported on first use."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import DeviceSpec

__all__: list[str] = []


@hookimpl
def fedplug_devices() -> list[DeviceSpec]:
    """Declares the backend."""
    return [
        DeviceSpec(name="cuda", target="fedplug_cuda:ops", summary="arrays on CUDA devices, of any framework")
    ]
