"""URLs: how a store is named, and what is said when the name is wrong."""

from pathlib import Path

import pytest

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.stores import open_store
from fedplug.stores.memory import MemoryStore
from fedplug.stores.sqlite import SqliteStore


def test_an_absolute_path_has_four_slashes(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a/b") as store:
        assert isinstance(store, SqliteStore)
    assert (tmp_path / "a" / "b" / "index.sqlite3").is_file()


def test_a_relative_path_has_three_slashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///runs/digits").close()
    assert (tmp_path / "runs" / "digits" / "index.sqlite3").is_file()


def test_every_memory_store_is_new():
    with open_store("memory://") as first, open_store("memory://") as second:
        assert isinstance(first, MemoryStore)
        first.open_process("p", {})
        assert second.processes() == []


def test_a_store_is_opened_again_from_its_config(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {})
        config = store.get_config()
    with SqliteStore(**config) as store:
        assert store.processes() == ["p"]
    assert MemoryStore(**MemoryStore().get_config()).processes() == []


def test_an_unknown_scheme_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'sqlite'"):
        open_store("sqlit:///x")


@pytest.mark.parametrize(
    "url", ["", "runs/state", "sqlite:", "sqlite://", "sqlite:///", "sqlite://x", "memory://x"]
)
def test_an_invalid_store_url_is_refused(url):
    with pytest.raises(ConfigError):
        open_store(url)


def test_a_path_is_no_url_and_gets_one():
    with pytest.raises(ConfigError, match="write, for example, 'sqlite:///runs/state'"):
        open_store(Path("runs/state"))


def test_a_home_folder_that_the_shell_left_alone_does_not_become_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="write the home folder in full"):
        open_store("sqlite:///~/state")
    assert not list(tmp_path.iterdir())
