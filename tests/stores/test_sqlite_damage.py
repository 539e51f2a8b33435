"""Damaged files are named, and what was in them is neither returned nor replaced."""

import contextlib
import random
import re
import sqlite3

import numpy as np
import pytest
from stored import flip

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of

CLIENTS = ["a", "b", "c"]


@pytest.fixture
def folder(tmp_path):
    """A closed store whose one segment holds three clients and the server, in this order."""
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {"k": 1}).commit(3, **round_of(3, CLIENTS))
    return tmp_path / "s"


@pytest.fixture
def segment(folder):
    (path,) = (folder / "segments").iterdir()
    return path


def open_process(store):
    return store.open_process("p", {"k": 1})


def damaged_owners(process):
    """Reads everything; returns the messages by owner, and checks that all else is intact."""
    messages = {}
    for client in CLIENTS:
        try:
            assert process.read_clients([client])[client]["w"].tolist() == [3.0] * 100
        except CorruptStoreError as error:
            messages[f"client '{client}'"] = str(error)
    try:
        assert process.read_server()["w"].tolist() == [3.0] * 100
    except CorruptStoreError as error:
        messages["server state"] = str(error)
    return messages


def test_a_flipped_bit_anywhere_in_a_segment_is_noticed_and_named(folder, segment):
    pristine = segment.read_bytes()
    with SqliteStore(folder) as store:
        process = open_process(store)
        starts = [entry.extent.position for entry in store._index.entries("p")]
        end = 2 * starts[3] - starts[2]  # where the note begins
        owners = ["client 'a'", "client 'b'", "client 'c'", "server state"]
        for bit in range(0, 8 * len(pristine), 5):
            flip(segment, *divmod(bit, 8))
            with pytest.raises(CorruptStoreError, match=re.escape(str(segment))):
                process.verify()
            if bit % 25 == 0:
                messages = damaged_owners(process)
                if bit < 8 * 64:
                    assert set(messages) == set(owners)
                elif bit >= 8 * end:
                    assert messages == {}
                else:
                    hit = sum(bit >= 8 * start for start in starts) - 1
                    place = (
                        f"process 'p', {owners[hit]}, round 3: {segment} is corrupt at offset {starts[hit]}"
                    )
                    assert set(messages) == {owners[hit]}
                    assert place in messages[owners[hit]]
            segment.write_bytes(pristine)
        process.verify()


@pytest.mark.parametrize("kept", [0, 10, 63, 64, 65, 700, 1200])
def test_a_truncated_segment_is_noticed_and_named(folder, segment, kept):
    segment.write_bytes(segment.read_bytes()[:kept])
    with SqliteStore(folder) as store:
        process = open_process(store)
        with pytest.raises(CorruptStoreError, match=re.escape(str(segment))):
            process.verify()
        messages = damaged_owners(process)
        assert "server state" in messages  # it lies last
        assert all("\n" not in message for message in messages.values())


@pytest.mark.parametrize("kept", [-64, -1])
def test_a_truncated_note_is_noticed_and_costs_no_state(folder, segment, kept):
    segment.write_bytes(segment.read_bytes()[:kept])
    with SqliteStore(folder) as store:
        process = open_process(store)
        with pytest.raises(CorruptStoreError, match=re.escape(str(segment))):
            process.verify()
        assert damaged_owners(process) == {}


def test_a_missing_segment_is_noticed_and_named(folder, segment):
    segment.unlink()
    with SqliteStore(folder) as store:
        messages = damaged_owners(open_process(store))
    assert len(messages) == 4
    assert all(f"{segment} is corrupt" in message and "missing" in message for message in messages.values())


def test_other_clients_continue_and_a_damaged_client_is_never_copied(folder, segment):
    flip(segment, 64 + 10)
    for number in range(4, 8):
        with SqliteStore(folder) as store:
            process = open_process(store)
            process.commit(number, **round_of(number, ["b", "c"]))
            assert process.read_clients(["b", "c"])["b"]["w"][0] == number
            with pytest.raises(CorruptStoreError, match="client 'a', round 3"):
                process.read_clients(["a", "b"])
    assert segment.exists()


def test_a_flipped_bit_anywhere_in_the_index_is_noticed_or_changes_nothing(folder):
    index = folder / "index.sqlite3"
    pristine = index.read_bytes()
    used = [i for i, byte in enumerate(pristine) if byte]
    errors = []
    for place in random.Random(0).sample(used, min(len(used), 300)):
        index.write_bytes(pristine)
        flip(index, place, place % 8)
        try:
            with SqliteStore(folder) as store:
                process = open_process(store)
                assert process.last_round == 3
                assert process.metadata == {"round": 3}
                assert process.client_ids() == CLIENTS
                errors += damaged_owners(process).values()
        except StoreError as error:
            errors.append(str(error))
    assert len(errors) > 100
    for message in errors:
        assert str(index) in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a database" * 100, ""),
        (b"SQLite format 3\0" + bytes(84), ""),
        (b"x", ""),
        (b"", ".*is empty, but the store is not"),
    ],
)
def test_an_index_that_is_no_sqlite_file_is_an_error_and_is_left_alone(folder, segment, content, message):
    index = folder / "index.sqlite3"
    index.write_bytes(content)
    with pytest.raises(StoreError, match=re.escape(str(index)) + message):
        SqliteStore(folder)
    assert index.read_bytes() == content
    assert segment.exists()


@pytest.mark.parametrize("table", ["blobs", "segments"])
def test_a_segment_that_a_damaged_row_named_is_not_taken_for_garbage(folder, segment, table):
    database = sqlite3.connect(folder / "index.sqlite3")
    database.execute(f"UPDATE {table} SET segment = 7")
    database.commit()
    database.close()
    with pytest.raises(CorruptStoreError, match="fails its checksum"), SqliteStore(folder) as store:
        open_process(store).read_clients(["a"])
    assert segment.exists()


def test_a_client_that_one_of_the_two_trees_has_lost_is_not_taken_for_new(folder):
    index, hidden = folder / "index.sqlite3", "FROM sqlite_schema WHERE name = 'blobs_by_owner'"
    with contextlib.closing(sqlite3.connect(index)) as database:
        database.execute("PRAGMA writable_schema = ON")
        (tree,) = database.execute(f"SELECT * {hidden}").fetchall()
        database.execute(f"DELETE {hidden}")
        database.commit()
    with contextlib.closing(sqlite3.connect(index)) as database:
        database.execute("DELETE FROM blobs WHERE owner = 'client:a'")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", tree)
        database.commit()
    with SqliteStore(folder) as store:
        process = open_process(store)
        assert process.read_clients(["b", "new"]).keys() == {"b"}
        for look in (lambda: process.read_clients(["a"]), process.client_ids, process.verify):
            with pytest.raises(CorruptStoreError, match=re.escape(str(index))):
                look()


def test_blobs_larger_than_a_page_are_checked_to_the_last_byte(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, client_states={}, server_state={"w": np.ones(300_001, np.uint8)})
        (segment,) = (tmp_path / "s" / "segments").iterdir()
        flip(segment, segment.read_bytes().index(bytes([1] * 300_001)) + 300_000)
        with pytest.raises(CorruptStoreError):
            process.read_server()
