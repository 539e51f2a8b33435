"""Damage to a store's file is noticed and named, and costs no other client's state."""

import random
import shutil
import sqlite3

import pytest
from stored import values

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import parts
from fedplug.stores.sqlite import FILE, SqliteStore
from fedplug.testing.crashes import flip
from fedplug.testing.rounds import round_of


@pytest.fixture
def folder(tmp_path):
    """Rounds 0 to 2 of "abc", "a" and "b", all of them kept."""
    with SqliteStore(tmp_path / "s", keep_rounds=3) as store:
        process = store.open_process("p", {})
        for number, clients in enumerate(["abc", "a", "b"]):
            process.commit(number, **round_of(number, clients))
    return tmp_path / "s"


def change(folder, *statements):
    """Executes SQL with SQLite's checks off."""
    database = sqlite3.connect(folder / FILE, isolation_level=None)
    database.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        database.execute(statement)
    database.close()


def damage(folder, owner, number):
    change(folder, f"UPDATE states SET checksum = checksum + 1 WHERE owner = '{owner}' AND round = {number}")


def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing(folder, tmp_path):
    positions = random.Random(0)
    size = (folder / FILE).stat().st_size
    noticed = 0
    for position in (*range(100), *(positions.randrange(100, size) for _ in range(400))):
        damaged = tmp_path / "damaged"
        shutil.copytree(folder, damaged)
        flip(damaged / FILE, position, positions.randrange(8))
        try:
            with SqliteStore(damaged) as store:
                process = store.open_process("p", {})
                found = (process.last_round, process.metadata, values(process), process.read_server()["w"][0])
                process.verify()
            assert found == (2, {"round": 2}, {"a": 1, "b": 2, "c": 0}, 2)
        except StoreError:
            noticed += 1
        shutil.rmtree(damaged)
    assert noticed > 20


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_noticed(folder, kept):
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[: int(kept * len(content))])
    with (
        pytest.raises(CorruptStoreError, match="restore the store from a copy"),
        SqliteStore(folder) as store,
    ):
        store.open_process("p", {}).verify()


def test_a_file_that_is_no_database_is_an_error_and_is_left_alone(folder):
    (folder / FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(CorruptStoreError, match="is corrupt or not a fedplug store"):
        SqliteStore(folder)
    assert (folder / FILE).read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("lost", ["DELETE FROM states WHERE owner = 'client:c'", "DELETE FROM states"])
def test_a_client_that_one_of_the_two_trees_has_lost_is_not_taken_for_new(folder, lost):
    index = "name = 'states_by_owner'"
    change(folder, "CREATE TABLE aside AS SELECT * FROM sqlite_master WHERE " + index)
    change(folder, "DELETE FROM sqlite_master WHERE " + index)
    change(folder, lost, "INSERT INTO sqlite_master SELECT * FROM aside")
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        for use in (lambda: process.read_clients(["c"]), process.client_ids, process.verify):
            with pytest.raises(CorruptStoreError, match=r"trees disagree|wrong # of entries"):
                use()


def test_a_damaged_state_is_named_and_the_other_clients_continue(folder):
    damage(folder, "client:b", 2)
    with SqliteStore(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        named = (
            r"process 'p', client 'b', round 2: .* part 0 of the state's 1 is missing or fails its checksum"
        )
        with pytest.raises(CorruptStoreError, match=named):
            process.read_clients(["a", "b"])
        process.commit(3, **round_of(3, ["a", "c"]))
        assert process.read_clients(["a", "c"])["c"]["w"][0] == 3
        assert [line.split(":")[0] for line in process.damage()] == ["process 'p', client 'b', round 2"]


def test_a_client_whose_newest_state_is_damaged_is_dropped_on_request(folder):
    damage(folder, "client:b", 2)
    with SqliteStore(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        (dropped,) = process.drop_damaged()
        assert "client 'b', round 2" in dropped
        process.verify()
        assert values(process) == {"a": 1, "c": 0}
        assert process.kept_rounds() == [0, 1, 2]
        assert process.drop_damaged() == []


@pytest.mark.parametrize("owner", ["client:a", "server"])
def test_damage_in_an_older_round_costs_the_rounds_that_need_it_and_no_newer_state(folder, owner):
    damage(folder, owner, 0)
    with SqliteStore(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        assert len(process.drop_damaged()) == 1
        process.verify()
        assert values(process) == {"a": 1, "b": 2, "c": 0}
        assert process.kept_rounds() == [1, 2]


def test_a_damaged_server_state_is_never_dropped(folder):
    damage(folder, "server", 2)
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        with pytest.raises(CorruptStoreError, match="server state, round 2"):
            process.drop_damaged()
        assert values(process) == {"a": 1, "b": 2, "c": 0}


def test_states_larger_than_a_part_are_checked_to_the_last_byte(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        states = round_of(0, ["a"], size=parts.SIZE // 4)
        store.open_process("p", {}).commit(0, **states)
    change(tmp_path / "s", "DELETE FROM states WHERE owner = 'client:a' AND part = parts - 1")
    with SqliteStore(tmp_path / "s") as store, pytest.raises(CorruptStoreError, match="client 'a', round 0"):
        store.open_process("p").read_clients(["a"])
