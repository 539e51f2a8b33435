"""Records facts about a benchmark run in addition to those of pytest-benchmark."""

from __future__ import annotations

import importlib.metadata
import os

from fedplug import kernels

LOAD = os.getloadavg()[0]
PEERS = ("numpy", "tensorflow", "torch")


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info["fedplug"] = {
        "simd": kernels.simd_level(),
        "threads": kernels.num_threads(),
        "load": LOAD,
        "peers": {package: version(package) for package in PEERS},
    }
