"""The built-in stores keep the promises of `fedplug.stores.base`."""

from __future__ import annotations

from fedplug.stores.memory import MemoryStore
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing import StateStoreSuite


class TestMemoryStore(StateStoreSuite):
    persistent = False

    def make_store(self, folder):
        return MemoryStore()


class TestSqliteStore(StateStoreSuite):
    def make_store(self, folder):
        return SqliteStore(folder / "store")
