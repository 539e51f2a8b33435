"""The store and its package meet fedplug's expectations of every store and plugin."""

from __future__ import annotations

import pytest
from fedplug_postgres.store import PostgresStore

from fedplug.testing import PluginPackageSuite, StateStoreSuite


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-postgres"

    @pytest.fixture(autouse=True)
    def _find_a_server(self, server, monkeypatch):
        for name, value in {"PGHOST": "127.0.0.1", "PGPORT": server.port, "PGUSER": "postgres"}.items():
            monkeypatch.setenv(name, str(value))


class TestPostgresStore(StateStoreSuite):
    @pytest.fixture(autouse=True)
    def _find_a_server(self, new_url):
        self._new_url = new_url
        self._urls = {}

    def make_store(self, folder):
        return PostgresStore.from_url(self._urls.setdefault(folder, self._new_url()))
