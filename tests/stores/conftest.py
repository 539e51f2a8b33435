"""Tests and programs of this folder import its helpers by name; those that crash stores often are slow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

OF_MANY_CRASHES = ("test_model", "test_sqlite_damage")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves crashes and damage at every place to `make test-numpy`: no store knows TensorFlow."""
    for item in items:
        if item.path.parent == HERE and (
            item.path.stem in OF_MANY_CRASHES or "_crash_" in item.name or "_kill" in item.name
        ):
            item.add_marker(pytest.mark.slow)
