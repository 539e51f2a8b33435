"""Looking into a store from the command line: never makes one, names what is damaged."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

from fedplug.cli import main
from fedplug.errors import StoreError
from fedplug.stores import open_store

STATE = {"w": np.ones(100, np.float32)}


@pytest.fixture
def folder(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'state'}") as store:
        dense, sparse = (store.open_process(name, {"encoder": name}) for name in ("dense", "sparse"))
        dense.commit(0, client_states={}, server_state=STATE)
        sparse.commit(7, client_states={"bob": STATE, "eve": STATE}, server_state=STATE, metadata={"a": 1})
        store.open_process("new", {})
    return tmp_path / "state"


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_show_has_a_line_for_each_process(prefix, folder, capsys):
    assert main(["store", "show", f"{prefix}{folder}"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [["dense", "0", "0"], ["new", "-", "0"], ["sparse", "7", "2"]]


def test_show_prints_everything_as_json(folder, capsys):
    assert main(["store", "show", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)[2] == {
        "process": "sparse",
        "last_round": 7,
        "clients": ["bob", "eve"],
        "metadata": {"a": 1},
        "signature": {"encoder": "sparse"},
    }


def damage(folder, condition):
    database = sqlite3.connect(folder / "state.sqlite3", isolation_level=None)
    database.execute(f"UPDATE states SET checksum = checksum + 1 WHERE {condition}")
    database.close()


def test_verify_accepts_intact_stores_and_lists_each_damage_once(folder, capsys):
    assert main(["store", "verify", str(folder)]) == 0
    capsys.readouterr()
    damage(folder, "owner IN ('client:bob', 'client:eve')")
    assert main(["store", "verify", str(folder)]) == 1
    dense, new, *lines = capsys.readouterr().out.splitlines()
    assert (dense, new) == ("ok    process 'dense'", "ok    process 'new'")
    assert [line.split(": ")[0] for line in lines] == [
        f"fail  process 'sparse', client '{name}', round 7" for name in ("bob", "eve")
    ]
    with (
        open_store(f"sqlite:///{folder}") as store,
        pytest.raises(StoreError, match=r"and 1 more; .* lists all"),
    ):
        store.open_process("sparse").verify()


def test_verify_drops_damaged_clients_on_request(folder, capsys):
    damage(folder, "owner = 'client:bob'")
    assert main(["store", "verify", str(folder), "--drop-damaged"]) == 1
    assert "drop  process 'sparse', client 'bob', round 7: " in capsys.readouterr().out
    assert main(["store", "verify", str(folder)]) == 0
    with open_store(f"sqlite:///{folder}") as store:
        assert store.open_process("sparse").client_ids() == ["eve"]


def test_damage_that_cannot_be_dropped_is_an_error(folder, capsys):
    damage(folder, "owner = 'server' AND process = 'sparse'")
    assert main(["store", "verify", str(folder), "--drop-damaged"]) == 1
    assert "fail  process 'sparse', server state, round 7: " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_a_mistyped_folder_is_reported_and_does_not_become_a_store(command, prefix, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "typo"):
        assert main(["store", command, f"{prefix}{tmp_path / name}"]) == 2
        assert f"there is no store in {tmp_path / name}; name its folder" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert not list((tmp_path / "empty").iterdir())


def test_a_store_in_use_can_be_shown_and_copied(folder, tmp_path, capsys):
    with open_store(f"sqlite:///{folder}"):
        assert main(["store", "show", str(folder)]) == 0
        assert ["sparse", "7", "2"] in [line.split() for line in capsys.readouterr().out.splitlines()]
        assert main(["store", "copy", f"sqlite:///{folder}", str(tmp_path / "copy")]) == 0
    assert main(["store", "verify", str(tmp_path / "copy")]) == 0


def test_rewind_rolls_back_the_named_process(tmp_path, capsys):
    where = str(tmp_path / "s")
    with open_store(f"sqlite:///{where}?keep_rounds=2") as store:
        for name in ("p", "q"):
            for number in range(3):
                store.open_process(name, {}).commit(number, client_states={}, server_state=STATE)
    assert main(["store", "rewind", where, "1"]) == 2
    assert "has 2 processes; name one with --process" in capsys.readouterr().err
    assert main(["store", "rewind", where, "1", "--process", "q"]) == 0
    assert capsys.readouterr().out == "process 'q' is rolled back from round 2 to round 1\n"
    assert main(["store", "rewind", where, "0", "--process", "q"]) == 2
    assert "round 0 of process 'q' is not kept; kept are: 1" in capsys.readouterr().err
    with open_store(f"sqlite:///{where}") as store:
        assert [store.open_process(name).last_round for name in ("p", "q")] == [2, 1]
