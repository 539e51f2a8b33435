"""Fixtures for the tests of the conformance suites: the bad plugins, and the checks that fail for a suite."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest

from fedplug.testing import run as results_of

BAD_PLUGINS = Path(__file__).parents[1] / "bad_plugins"


def _failures(suite):
    return {result.check: result.reason for result in results_of(suite) if result.status == "fail"}


@pytest.fixture(scope="session")
def failures():
    """Returns ``failures(suite)``, which maps each failed check to its reason."""
    return _failures


@pytest.fixture(scope="session")
def run(python):
    """Returns ``run(*arguments, cwd=, site=)``, which runs Python with the packages in a folder."""
    return lambda *arguments, cwd, site: python(
        *arguments, cwd=cwd, PYTHONPATH=str(site), TF_CPP_MIN_LOG_LEVEL="3"
    )


@functools.cache
def _load(name):
    spec = importlib.util.spec_from_file_location(f"bad_plugins_{name}", BAD_PLUGINS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_generate_tests(metafunc):
    """Parametrizes ``good``, or ``check`` and ``bad``, over the plugins of the module's ``BAD_PLUGINS``.

    A test of several kinds of plugins also has the argument ``kind``.
    """
    for name in {"good", "bad"} & set(metafunc.fixturenames):
        rows = [row for kind in metafunc.module.BAD_PLUGINS for row in _rows(kind)[name]]
        arguments = [key for key in rows[0] if key in metafunc.fixturenames]
        values = [[row[key] for key in arguments] for row in rows]
        metafunc.parametrize(arguments, values, ids=[f"{row['kind']}-{row[name].__name__}" for row in rows])


def _rows(kind):
    plugins = _load(kind)
    return {
        "good": [{"kind": kind, "good": part} for part in plugins.GOOD],
        "bad": [{"kind": kind, "check": check, "bad": part} for check, part in plugins.BAD],
    }


@pytest.fixture(scope="session")
def bad_plugins():
    """Returns ``bad_plugins(name)``, which loads a module of bad plugins."""
    return _load
