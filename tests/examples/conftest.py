"""The examples as modules: they are programs in a folder of their own, not a package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import tensorflow_federated  # noqa: F401 - every example is a program for it

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], ModuleType]:
    """Imports ``examples/NAME.py``."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"fedplug_example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # NamedTuples look their module up
        spec.loader.exec_module(module)
        return module

    return load
