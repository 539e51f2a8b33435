"""Repair brings a store back as it was wherever the files still say how, and names all that they do not."""

import itertools
import random
import shutil
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import files_of, flip

from fedplug.errors import CorruptStoreError, StoreError, StoreInUseError
from fedplug.stores import note
from fedplug.stores.repair import repair_store
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


def contents(folder):
    """All that a store holds of its newest rounds."""
    found = {}
    with SqliteStore(folder) as store:
        for name in store.processes():
            process = store.open_process(name)
            process.verify()
            clients = process.read_clients(process.client_ids())
            states = {client: state["w"].tolist() for client, state in clients.items()}
            server = process.read_server()
            found[name] = (process.last_round, process.metadata, process.signature, states, server["w"][0])
    return found


@pytest.fixture
def folder(tmp_path):
    """Two processes, replaced and moved states, a round gone back from and committed again."""
    with SqliteStore(tmp_path / "s", keep_rounds=2) as store:
        p, q = (store.open_process(name, {"of": name}) for name in "pq")
        for number, clients in enumerate(["abcdefgh", "ab", "cd", "efg"]):
            p.commit(number, **round_of(number, clients))
            q.commit(number + 10, **round_of(number + 10, clients[::-1]))
        p.rewind(2)
        p.commit(3, **round_of(33, "h"))
    return tmp_path / "s"


def test_a_lost_index_is_made_anew_from_the_segments(folder):
    before = contents(folder)
    assert before["p"][3]["e"][0] == 0  # not 3, which was gone back from
    (folder / "index.sqlite3").unlink()
    left = files_of(folder)
    with pytest.raises(CorruptStoreError, match="has segments but no index"):
        SqliteStore(folder)
    assert files_of(folder) == left
    report = repair_store(folder)
    assert sorted(report.done) == [
        "process 'p' is restored to round 3, with 8 clients",
        "process 'q' is restored to round 13, with 8 clients",
    ]
    assert report.lost == []
    assert contents(folder) == before


@pytest.mark.parametrize("newest", [False, True])
def test_a_segment_that_is_lost_together_with_the_index_is_named(tmp_path, newest):
    """Client "a" has an older state in another segment, from which it would go on without a word."""
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        for number, clients in enumerate(["abcdef", "a", "b"]):
            process.commit(number, **round_of(number, clients))
    segments = sorted((tmp_path / "s" / "segments").iterdir())
    lost = segments[-1 if newest else 1]
    lost.unlink()
    (tmp_path / "s" / "index.sqlite3").unlink()
    report = repair_store(tmp_path / "s")
    assert [message.partition(" is missing")[0] for message in report.lost] == [str(lost)]
    assert "begin anew or from an older state" in report.lost[0]
    assert repair_store(tmp_path / "s") == ([], [])


def test_repair_does_not_restore_rounds_after_a_rewind(folder):
    with SqliteStore(folder, keep_rounds=2) as store:
        process = store.open_process("q")
        process.rewind(12)
    before = contents(folder)
    (folder / "index.sqlite3").unlink()
    repair_store(folder)
    assert contents(folder) == before


@pytest.fixture
def repairs(folder):
    """Returns a function that checks the repair of an index and returns whether it was needed."""
    before, damaged = contents(folder), folder.with_name("damaged")

    def repairs(content):
        shutil.copytree(folder, damaged)
        (damaged / "index.sqlite3").write_bytes(content)
        report = repair_store(damaged)
        assert report.lost == []
        assert contents(damaged) == before
        if report.done:
            assert len((damaged / "index.sqlite3.damaged").read_bytes()) == len(content)
        shutil.rmtree(damaged)
        return bool(report.done)

    return repairs


def test_a_damaged_index_anywhere_is_repaired_and_set_aside(folder, repairs):
    pristine = (folder / "index.sqlite3").read_bytes()
    used = [place for place, byte in enumerate(pristine) if byte]
    header = [place for place in used if place < 100]
    repaired = 0
    for place in [*header, *random.Random(0).sample(used, 60)]:
        repaired += repairs(pristine[:place] + bytes([pristine[place] ^ 4]) + pristine[place + 1 :])
    assert repaired > 20


def test_repair_gets_over_whatever_is_written_over_the_index(folder, repairs):
    pristine, chance = (folder / "index.sqlite3").read_bytes(), random.Random(0)
    for count in range(60):
        place, length = chance.randrange(100, len(pristine)), chance.choice([8, 100, 4096])
        written = bytes(length) if count % 4 == 0 else chance.randbytes(length)
        repairs(pristine[:place] + written + pristine[place + length :])


def test_a_page_of_the_index_that_is_in_the_place_of_another_is_repaired(folder, repairs):
    content, page = (folder / "index.sqlite3").read_bytes(), 4096
    for first, second in itertools.combinations(range(1, len(content) // page), 2):
        parts = [content[start : start + page] for start in range(0, len(content), page)]
        parts[first], parts[second] = parts[second], parts[first]
        repairs(b"".join(parts))


def test_intact_data_is_not_changed(folder):
    before = files_of(folder)
    assert repair_store(folder) == ([], [])
    assert files_of(folder) == before


def test_damaged_clients_are_listed_and_only_on_request_dropped(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {}).commit(3, **round_of(3, "abc"))
    (segment,) = (tmp_path / "s" / "segments").iterdir()
    flip(segment, 64 + 200)
    report = repair_store(tmp_path / "s")
    assert report.done == []
    assert [message.partition(":")[0] for message in report.lost] == ["process 'p', client 'a', round 3"]
    report = repair_store(tmp_path / "s", drop_damaged=True)
    assert report == (["dropped, begins anew: process 'p', client 'a', round 3"], [])
    assert contents(tmp_path / "s")["p"][3].keys() == {"b", "c"}


@pytest.fixture
def three_rounds(tmp_path):
    """Three kept rounds, in a segment each, of which client "a" and the server have all."""
    with SqliteStore(tmp_path / "s", keep_rounds=3) as store:
        for number, clients in enumerate(["ab", "ac", "ad"]):
            store.open_process("p", {}).commit(number, **round_of(number, clients))
    return tmp_path / "s"


@pytest.mark.parametrize(("blob", "whose"), [(0, "client 'a'"), (2, "server state")])
@pytest.mark.parametrize("damaged", [0, 1])
def test_damage_in_an_older_round_costs_the_rounds_that_need_it_and_no_newer_state(
    three_rounds, blob, whose, damaged
):
    newest = contents(three_rounds)
    with SqliteStore(three_rounds, keep_rounds=3) as store:
        segment, position = damaged + 1, [*store._index.entries_in(damaged + 1)][blob].extent.position
    flip(three_rounds / "segments" / f"{segment:010d}.segment", position + 200)
    report = repair_store(three_rounds)
    assert (report.done, len(report.lost)) == ([], 1)
    report = repair_store(three_rounds, drop_damaged=True)
    gone = f"dropped, with the rounds before {damaged + 1}: process 'p', {whose}, round {damaged}"
    assert report == ([gone], [])
    assert contents(three_rounds) == newest
    with SqliteStore(three_rounds, keep_rounds=3) as store:
        process = store.open_process("p")
        assert process.kept_rounds() == [*range(damaged + 1, 3)]
        process.rewind(damaged + 1)
        process.verify()
        assert process.read_clients("a")["a"]["w"][0] == damaged + 1
    assert repair_store(three_rounds, drop_damaged=True) == ([], [])


def test_a_client_whose_newest_and_older_states_are_damaged_is_dropped_once(three_rounds):
    for segment in (1, 3):
        flip(three_rounds / "segments" / f"{segment:010d}.segment", 64 + 200)
    report = repair_store(three_rounds, drop_damaged=True)
    assert report.lost == []
    assert "dropped, begins anew: process 'p', client 'a', round 2" in report.done
    assert contents(three_rounds)["p"][3].keys() == {"b", "c", "d"}
    assert repair_store(three_rounds, drop_damaged=True) == ([], [])


def test_a_damaged_server_state_is_listed_and_never_dropped(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {}).commit(3, client_states={}, server_state={"w": np.ones(9)})
    (segment,) = (tmp_path / "s" / "segments").iterdir()
    flip(segment, 64 + 40)
    for _ in range(2):
        report = repair_store(tmp_path / "s", drop_damaged=True)
        assert report.done == []
        assert "server state, round 3" in report.lost[0]


def test_without_index_and_notes_every_segment_is_named_and_none_deleted(folder):
    (folder / "index.sqlite3").write_bytes(b"")
    before = sorted(path for path in (folder / "segments").iterdir())
    for segment in before:
        note.retract(segment)
    report = repair_store(folder)
    assert report.done == []
    assert len(report.lost) == len(before)
    after = sorted(path.name for path in (folder / "segments").iterdir())
    assert after == [f"{path.name}.damaged" for path in before]


def test_without_notes_the_intact_rows_of_a_damaged_index_are_used(folder):
    database = sqlite3.connect(folder / "index.sqlite3")
    database.execute("UPDATE blobs SET round = 9 WHERE owner = 'client:b'")
    database.commit()
    database.close()
    for segment in (folder / "segments").iterdir():
        note.retract(segment)
    report = repair_store(folder)
    assert report.done == [
        "process 'p' is restored to round 3, with 7 clients",
        "process 'q' is restored to round 13, with 7 clients",
    ]
    assert report.lost
    with SqliteStore(folder) as store:
        assert store.open_process("p").client_ids() == list("acdefgh")


def test_a_server_state_that_is_nowhere_is_an_error_that_changes_nothing(tmp_path):
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, "abcd"))
        process.commit(1, **round_of(1, "a"))
    newest = max((tmp_path / "s" / "segments").iterdir())
    flip(newest, newest.stat().st_size - 1)
    database = sqlite3.connect(tmp_path / "s" / "index.sqlite3")
    database.execute("UPDATE blobs SET size = 1 WHERE owner = 'server'")
    database.commit()
    database.close()
    before = files_of(tmp_path / "s")
    with pytest.raises(CorruptStoreError, match="process 'p', round 1, is in no readable segment"):
        repair_store(tmp_path / "s")
    assert files_of(tmp_path / "s") == before


def test_a_store_in_use_or_none_at_all_is_refused(tmp_path, folder):
    with SqliteStore(folder), pytest.raises(StoreInUseError):
        repair_store(folder)
    with pytest.raises(StoreError, match="there is no store in"):
        repair_store(tmp_path / "none")


@settings(max_examples=30, deadline=None)
@given(
    rounds=st.lists(st.tuples(st.sampled_from("pq"), st.sets(st.sampled_from("abcdef")), st.integers(0, 2)))
)
def test_any_store_comes_back_from_its_segments_alone(tmp_path_factory, rounds):
    """Commits of two processes, and ways back of 0 to 2 rounds before them."""
    folder = tmp_path_factory.mktemp("any") / "s"
    with SqliteStore(folder, keep_rounds=3) as store:
        for count, (name, clients, back) in enumerate(rounds):
            process = store.open_process(name, {"of": name})
            kept = process.kept_rounds()
            if kept:
                process.rewind(kept[max(0, len(kept) - 1 - back)])
            number = 0 if process.last_round is None else process.last_round + 1
            process.commit(number, **round_of(count, sorted(clients), size=1 + 20 * (count % 3)))
    before = contents(folder)
    (folder / "index.sqlite3").unlink()
    repair_store(folder)
    assert contents(folder) == before
