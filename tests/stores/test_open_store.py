"""URLs and paths of stores, and the public names of the package."""

import importlib
import re
from pathlib import Path

import pytest

import fedplug
from fedplug.errors import ConfigError, UnknownNameError
from fedplug.stores import open_store
from fedplug.stores.copying import copy_store
from fedplug.stores.memory import MemoryStore
from fedplug.stores.rules import absolute
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of

PAGE = (Path(__file__).parents[2] / "docs" / "stages.md").read_text(encoding="utf-8")


def test_an_absolute_path_has_four_slashes(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a/b") as store:
        assert isinstance(store, SqliteStore)
    assert (tmp_path / "a" / "b" / "state.sqlite3").is_file()


def test_a_relative_path_has_three_slashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///runs/digits").close()
    assert (tmp_path / "runs" / "digits" / "state.sqlite3").is_file()


def test_every_memory_store_is_new():
    with open_store("memory://") as first, open_store("memory://") as second:
        assert isinstance(first, MemoryStore)
        first.open_process("p", {})
        assert second.processes() == MemoryStore(**first.get_config()).processes() == []


def test_an_unknown_scheme_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'sqlite'"):
        open_store("sqlit:///x")


@pytest.mark.parametrize(
    "url",
    ["", "runs/state", "sqlite:", "sqlite://", "sqlite:///", "sqlite:///a\0b", "sqlite://x", "memory://x"],
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


def test_a_store_opened_by_a_relative_path_stays_in_its_folder(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with SqliteStore("state") as store:
            store.open_process("p", {}).commit(0, **round_of(0, "ab"))
    monkeypatch.chdir(tmp_path / "first")
    with SqliteStore("state") as store:
        process = store.open_process("p")
        monkeypatch.chdir(tmp_path / "second")
        for number in range(1, 4):
            process.commit(number, **round_of(number, "a"))
        process.verify()
        config = store.get_config()
    for name, number in {"first": 3, "second": 0}.items():
        with SqliteStore(tmp_path / name / "state") as store:
            process = store.open_process("p")
            process.verify()
            assert process.last_round == number
    with SqliteStore(**config) as store:
        assert store.open_process("p").last_round == 3


def test_what_was_looked_into_and_copied_is_the_store_of_that_moment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with fedplug.open_store("sqlite:///state") as store:
        store.open_process("p", {}).commit(0, **round_of(0, "ab"))
        copy_store("state", "copy")
    with fedplug.stores.look_into("sqlite:///copy") as store:
        monkeypatch.chdir("/")
        assert store.open_process("p").client_ids() == ["a", "b"]
        store.open_process("p").verify()


def test_a_url_that_is_opened_later_can_be_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("sqlite:///a/b?keep_rounds=5") == f"sqlite:///{tmp_path}/a/b?keep_rounds=5"
    for url in ("sqlite:////a/b", "memory://", "postgresql://user@host/database", "other:///a"):
        assert absolute(url) == url


def test_every_name_for_authors_exists():
    names = re.findall(
        r"^\| `(fedplug\.[\w.]+)` \|", PAGE[PAGE.index("## Names for authors") :], re.MULTILINE
    )
    assert len(names) == 6
    for name in names:
        package, _, last = name.rpartition(".")
        assert last in importlib.import_module(package).__all__


def test_stores_are_imported_without_what_only_some_need(python):
    program = "import sys, fedplug.stores; print({'sqlite3', 'safetensors'} & sys.modules.keys())"
    assert python("-c", program).stdout == "set()\n"
