"""One server for most tests, with a new schema for each, and a server that a test may kill."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
import sys

import psycopg  # noqa: F401  (server.py uses it: imported here, the folder is left out where it is missing)
import pytest


def _load(name):
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(__file__).with_name(f"{name}.py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_server = _load("server")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    """A running server."""
    if _server.binaries() is None:
        pytest.skip("no PostgreSQL server is installed (Debian: postgresql)")
    with _server.running() as started:
        yield started


@pytest.fixture
def new_url(server):
    """``new_url(**options)``: the URL of an unused store."""

    def make(**options):
        return server.url(schema=f"store_{next(_numbers)}", **options)

    return make


@pytest.fixture
def url(new_url):
    """Returns the URL of an unused store."""
    return new_url()


@pytest.fixture(scope="session")
def proxy():
    """``proxy(port)``: a way to a server that can be cut (`Proxy` of proxy.py)."""
    return _load("proxy").Proxy
