"""The environment of results: versions, processor and threads, for files that must be understood later."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import fedplug.kernels as kernels
from fedplug.registry.entry_points import own_version

__all__ = ["environment", "processor"]

_DISTRIBUTIONS = ("numpy", "tensorflow", "tensorflow-federated")


def environment() -> dict[str, str | int]:
    """Returns the versions and the machine as JSON values. Equal values mean that equal bits are expected."""
    return {
        "fedplug": own_version(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _DISTRIBUTIONS},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count() or 0,
        "kernel_threads": kernels.num_threads(),
        "simd": kernels.simd_level(),
    }


def processor() -> str:
    """Returns the processor's name from the system."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
