"""A store stays where it was opened, whatever the working directory becomes."""

import fedplug
from fedplug.stores.copying import copy_store
from fedplug.stores.repair import repair_store
from fedplug.stores.rules import absolute
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


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
    repair_store("copy")
    with fedplug.stores.look_into("sqlite:///copy") as store:
        monkeypatch.chdir("/")
        assert store.open_process("p").client_ids() == ["a", "b"]
        store.open_process("p").verify()


def test_a_url_that_is_opened_later_can_be_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("sqlite:///a/b?keep_rounds=5") == f"sqlite:///{tmp_path}/a/b?keep_rounds=5"
    for url in ("sqlite:////a/b", "memory://", "postgresql://user@host/database", "other:///a"):
        assert absolute(url) == url
