"""Fixtures for the tests of the conformance suites: the bad plugins, and the checks that fail for a suite."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fedplug.testing import run

BAD_PLUGINS = Path(__file__).parents[1] / "bad_plugins"


def _failures(suite):
    return {result.check: result.reason for result in run(suite) if result.status == "fail"}


@pytest.fixture(scope="session")
def failures():
    """Returns ``failures(suite)``, which maps each failed check to its reason."""
    return _failures


def _load(name):
    spec = importlib.util.spec_from_file_location(f"bad_plugins_{name}", BAD_PLUGINS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc):
    """Parametrizes tests with an argument ``good`` or ``bad`` over the plugins of their ``BAD_PLUGINS``."""
    if "bad" in metafunc.fixturenames or "good" in metafunc.fixturenames:
        plugins = _load(metafunc.module.BAD_PLUGINS)
        if "good" in metafunc.fixturenames:
            metafunc.parametrize("good", plugins.GOOD)
        if "bad" in metafunc.fixturenames:
            ids = [part.__name__ for _, part in plugins.BAD]
            metafunc.parametrize(("check", "bad"), plugins.BAD, ids=ids)


@pytest.fixture(scope="session")
def bad_plugins():
    """Returns ``bad_plugins(name)``, which loads a module of bad plugins."""
    return _load
