"""The sharded store: a round on many shards is all or nothing, and states move with the machines."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from local_store import LocalFleet, LocalStore
from stored import files_of, flip, values

from fedplug.errors import ConfigError, CorruptStoreError, StoreError
from fedplug.stores.repair import repair_store
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.staging import Staged
from fedplug.stores.sqlite import SqliteStore
from fedplug.stores.transfer import transfer, transfer_to_folder
from fedplug.testing import StateStoreSuite
from fedplug.testing.rounds import round_of

KILLS = int(os.environ.get("FEDPLUG_KILLS", "25"))
COMMITTER = pathlib.Path(__file__).with_name("sharded_committer.py")
CLIENTS = [f"client {i}" for i in range(40)]


class TestLocalStore(StateStoreSuite):
    def make_store(self, folder):
        return LocalStore(folder / "store")


class CrashError(BaseException):
    """Ends a process where it stands."""


class CrashingFleet(LocalFleet):
    """Dies before the ``left``-th call of a shard from now on; every shard is called on its own."""

    left = None

    def call(self, method, arguments):
        results = {}
        for shard, given in arguments.items():
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise CrashError
            results.update(super().call(method, {shard: given}))
        return results


class CrashingStore(LocalStore):
    def connect(self, identity):
        return CrashingFleet({name: self._folder / "shards" / name for name in self._names})

    def dies(self, steps, use):
        """Returns whether a call dies after some steps."""
        self.fleet.left = steps
        try:
            use()
        except CrashError:
            return True
        return False


@pytest.fixture
def folder(tmp_path):
    """Rounds 0 and 1 on shards a, b and c; every second client took part in round 1."""
    with LocalStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, CLIENTS))
        process.commit(1, **round_of(1, CLIENTS[::2]))
    return tmp_path / "s"


AFTER_1 = {client: 1 - i % 2 for i, client in enumerate(CLIENTS)}


# Placement.


def test_a_shard_that_comes_takes_its_share_and_nothing_else_moves():
    before, after = (Placement(frozenset(names), 64) for names in ("abcd", "abcde"))
    moved = [p for p in range(64) if before.homes_of(p) != after.homes_of(p)]
    assert 64 / 5 / 2 < len(moved) < 2 * 64 / 5
    assert all(after.homes_of(p) == ("e",) for p in moved)


def test_a_replica_is_on_another_shard_and_takes_over():
    with_c, without = Placement(frozenset("abc"), 64, 1), Placement(frozenset("ab"), 64, 1)
    for partition in range(64):
        first, second = with_c.homes_of(partition)
        assert first != second
        assert without.homes_of(partition)[0] == (second if first == "c" else first)


# Two phases.


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_crash_before_every_step_leaves_one_round_whole(tmp_path, replicas):
    crashed, steps = True, -1
    while crashed:
        steps += 1
        folder = tmp_path / str(steps)
        with LocalStore(folder, replicas=replicas) as store:
            store.open_process("p", {}).commit(0, **round_of(0, CLIENTS))
        with CrashingStore(folder, replicas=replicas) as store:
            process = store.open_process("p", {})
            crashed = store.dies(steps, functools.partial(process.commit, 1, **round_of(1, CLIENTS[::2])))
        with LocalStore(folder, replicas=replicas) as store:
            process = store.open_process("p", {})
            process.verify()
            assert process.last_round == (0 if steps < 3 else 1)  # every shard was asked to prepare
            assert values(process) == (dict.fromkeys(CLIENTS, 0) if steps < 3 else AFTER_1)
            process.commit(process.last_round + 1, **round_of(9, CLIENTS[:3]))
            assert values(process) == values(process) | dict.fromkeys(CLIENTS[:3], 9)
    assert steps == 6  # every shard was asked to prepare, and told the decision


@pytest.mark.parametrize("names", ["ab", "bcd"])
def test_a_crash_before_every_step_of_a_move_loses_nothing(tmp_path, names):
    crashed, steps = True, -1
    while crashed:
        steps += 1
        folder = tmp_path / str(steps)
        with LocalStore(folder, replicas=1) as store:
            process = store.open_process("p", {})
            process.commit(0, **round_of(0, CLIENTS))
            process.commit(1, **round_of(1, CLIENTS[::2]))
        with CrashingStore(folder, names, replicas=1) as store:
            crashed = store.dies(steps, functools.partial(store.open_process, "p", {}))
        with LocalStore(folder, names, replicas=1) as store:
            process = store.open_process("p", {})
            process.verify()
            assert (process.last_round, process.metadata) == (1, {"round": 1})
            assert values(process) == AFTER_1
            assert set(process.record.versions) == set(names)
            kept = sum(len(shard._open("p").client_ids()) for shard in store.fleet._shards.values())
            assert kept == 2 * len(CLIENTS)  # nothing is left where it was moved from
    assert steps >= 6


def test_a_store_killed_at_any_file_operation_is_whole_every_time(tmp_path):
    command = [sys.executable, str(COMMITTER), str(tmp_path / "s"), "0", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == KILLS


def test_when_the_index_cannot_decide_the_round_before_is_intact(folder, monkeypatch):
    with LocalStore(folder) as store:
        process = store.open_process("p", {})
        real = process.index.commit

        def full(*arguments, **options):
            raise StoreError("the disk is full")

        process.index.commit = full
        with pytest.raises(StoreError, match=r"round 2 of process 'p' .*disk is full; round 1 is intact"):
            process.commit(2, **round_of(2, CLIENTS))
        process.index.commit = real
        assert values(process) == AFTER_1
        process.commit(2, **round_of(2, CLIENTS[:1]))
        assert values(process) == AFTER_1 | {CLIENTS[0]: 2}
        process.verify()


def test_states_that_were_staged_are_committed(folder):
    with LocalStore(folder) as store:
        process = store.open_process("p", {})
        (shard,) = process.record.placement.homes("client 3")
        store.fleet.call("stage", {shard: ("p", "x", "client 3", {"w": np.float32([7])})})
        process.commit(2, client_states={"client 3": Staged("x")}, server_state={})
        assert values(process) == AFTER_1 | {"client 3": 7}
        with pytest.raises(StoreError, match=r"x.state cannot be read: .*; run the round again"):
            process.commit(3, client_states={"client 3": Staged("x")}, server_state={})
        assert process.last_round == 2


def test_a_prepared_round_can_be_prepared_again_and_an_abandoned_one_cannot(folder):
    with LocalStore(folder) as store:
        store.open_process("p", {})
        call = store.fleet._shards["a"].prepare
        call("p", 2, 2, 3, 1, {"client 1": {}})
        call("p", 2, 2, 3, 1, {"client 1": {}})  # as after a restart in which the answer was lost
        call("p", 2, 2, 5, 1, {})
        with pytest.raises(StoreError, match="version 3 was abandoned; now it is 5"):
            call("p", 2, 2, 3, 1, {"client 1": {}})


# Machines.


def test_machines_come_and_go(folder):
    for number, names in enumerate(["abcd", "abcde", "abcde"], start=2):
        with LocalStore(folder, names) as store:
            process = store.open_process("p", {})
            assert set(store.machines) == set(names)
            process.verify()
            process.commit(number, **round_of(number, []))
            store.drain({"b"})
            process.verify()
            assert values(process) == AFTER_1
            assert "b" not in process.record.versions
    with LocalStore(folder, "acde") as store:
        assert values(store.open_process("p", {})) == AFTER_1
        with pytest.raises(StoreError, match="no machine would be left"):
            store.drain(set("acde"))


def test_a_lost_machine_is_named_with_its_clients(folder):
    with LocalStore(folder) as store:
        placement = store.open_process("p", {}).record.placement
    lost = [client for client in sorted(CLIENTS) if placement.homes(client) == ("b",)]
    with LocalStore(folder, "ac") as store, pytest.raises(StoreError) as caught:
        store.open_process("p", {})
    for part in (f"{len(lost)} clients", repr(lost[0]), f"{folder}/shards/b", "lost=restart"):
        assert part in str(caught.value)
    with LocalStore(folder) as store:  # it was only away
        assert values(store.open_process("p", {})) == AFTER_1
    with LocalStore(folder, "ac", lost="restart") as store:
        assert values(store.open_process("p", {})) == {c: n for c, n in AFTER_1.items() if c not in lost}
    with LocalStore(folder) as store:  # what it has is too old
        process = store.open_process("p", {})
        assert lost[0] not in values(process)
        process.verify()


def test_with_replicas_a_machine_may_be_lost(folder):
    with LocalStore(folder, replicas=1) as store:
        store.open_process("p", {}).commit(2, **round_of(2, CLIENTS[:5]))
    shutil.rmtree(folder / "shards" / "b")
    with LocalStore(folder, "acd", replicas=1) as store:
        process = store.open_process("p", {})
        process.verify()
        assert values(process) == AFTER_1 | dict.fromkeys(CLIENTS[:5], 2)


def test_a_shard_of_another_time_is_refused(folder):
    shutil.copytree(folder / "shards" / "a", folder.parent / "old")
    with LocalStore(folder) as store:
        for number in range(2, 4):
            store.open_process("p", {}).commit(number, **round_of(number, CLIENTS))
    shutil.rmtree(folder / "shards" / "a")
    shutil.move(folder.parent / "old", folder / "shards" / "a")
    with LocalStore(folder) as store, pytest.raises(StoreError, match=r"holds version 2, .* has version 4"):
        store.open_process("p", {})


def test_damage_on_a_shard_is_named(folder):
    for segment in (folder / "shards" / "a" / "states" / "segments").iterdir():
        flip(segment, 150)
    with LocalStore(folder) as store:
        process = store.open_process("p", {})
        with pytest.raises(CorruptStoreError, match=r"'p', client 'client .*shards/a/states/segments"):
            process.verify()


# Going back, and machines.


@pytest.fixture
def five(tmp_path):
    """Rounds 0 to 4 on shards a, b and c with a replica, of which the last 4 are kept."""
    with LocalStore(tmp_path / "s", replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        for number in range(5):
            process.commit(number, **round_of(number, cohort(number)))
    return tmp_path / "s"


def cohort(number):
    return CLIENTS[number : 36 + number : 1 + number]


def after(number):
    return {client: n for n in range(number + 1) for client in cohort(n)}


# Of a store that had shards a, b and c in rounds 1 and 2, and these in rounds 3 and 4.
@pytest.mark.parametrize("names", ["abc", "bcd"])
def test_a_crash_before_every_step_of_a_rewind_leaves_one_round_whole(tmp_path, names):
    crashed, steps, found = True, -1, []
    while crashed:
        steps += 1
        folder = tmp_path / str(steps)
        for shards, numbers in (("abc", range(3)), (names, range(3, 5))):
            with LocalStore(folder, shards, replicas=1, keep_rounds=4) as store:
                process = store.open_process("p", {})
                for number in numbers:
                    process.commit(number, **round_of(number, cohort(number)))
        with CrashingStore(folder, names, replicas=1, keep_rounds=4) as store:
            process = store.open_process("p", {})
            crashed = store.dies(steps, functools.partial(process.rewind, 2))
        with LocalStore(folder, names, replicas=1, keep_rounds=4) as store:
            process = store.open_process("p", {})
            process.verify()
            found.append(process.last_round)
            assert process.metadata == {"round": process.last_round}
            assert values(process) == after(process.last_round)
            assert process.read_server()["w"][0] == process.last_round
            assert set(process.record.versions) == set(names)
            process.rewind(1)
            assert values(process) == after(1)
    assert found == sorted(found, reverse=True)
    assert set(found) == {2, 4}


def test_a_failed_rewind_of_the_index_changes_nothing(five):
    with LocalStore(five, replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        real = process.index.rewind

        def full(number):
            process.index.rewind = real
            raise StoreError("the disk is full")

        process.index.rewind = full
        with pytest.raises(StoreError, match="the disk is full"):
            process.rewind(2)
        assert (process.last_round, values(process)) == (4, after(4))
        process.commit(5, **round_of(5, CLIENTS))
        process.rewind(3)
        assert values(process) == after(3)
        process.verify()


def test_a_failed_rewind_of_a_shard_is_completed_by_the_next_use(five):
    with CrashingStore(five, "abcd", replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        real = store.fleet._shards["b"].settle

        def full(*arguments):
            raise StoreError("the disk is full")

        store.fleet._shards["b"].settle = full
        process.rewind(2)
        assert process.last_round == 2
        with pytest.raises(StoreError, match="the disk is full"):
            values(process)
        with pytest.raises(
            StoreError, match="round 3 of process 'p' was not committed: the disk is full; round 2"
        ):
            process.commit(3, **round_of(3, CLIENTS))
        store.fleet._shards["b"].settle = real
        assert values(process) == after(2)
        process.verify()


def test_states_stay_on_the_current_machines_after_a_rewind(five):
    with LocalStore(five, "abcd", replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        store.drain({"a"})
        placement = process.record.placement
        assert placement.shards == set("bcd")
        process.rewind(2)
        assert process.record.placement == placement
        assert values(process) == after(2)
        process.verify()
        assert process.kept_rounds() == [1, 2]
        process.commit(3, **round_of(30, CLIENTS[:3]))
        process.rewind(2)
        assert values(process) == after(2)


def test_a_machine_that_was_away_rewinds_with_the_others(five):
    with LocalStore(five, "ab", replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        process.rewind(3)
        for number in range(4, 6):
            process.commit(number, **round_of(10 * number, cohort(number)))
    with LocalStore(five, replicas=1, keep_rounds=4) as store:  # c holds rounds that were undone meanwhile
        process = store.open_process("p", {})
        process.verify()
        expected = after(3) | dict.fromkeys(cohort(4), 40) | dict.fromkeys(cohort(5), 50)
        assert values(process) == expected
        process.rewind(2)
        assert values(process) == after(2)
        process.verify()


def test_a_rewind_to_a_round_of_a_missing_machine_is_refused(tmp_path):
    folder = tmp_path / "s"
    with LocalStore(folder, keep_rounds=4) as store:
        process = store.open_process("p", {})
        for number in range(3):
            process.commit(number, **round_of(number, CLIENTS[number:]))
        placement = process.record.placement
        store.drain({"b"})  # takes the states of round 2 along
    lost = [client for client in sorted(CLIENTS) if placement.homes(client) == ("b",)]
    with LocalStore(folder, "ac", keep_rounds=4) as store:
        process = store.open_process("p", {})
        process.commit(3, **round_of(3, CLIENTS[3:]))
        process.verify()
        with pytest.raises(StoreError) as caught:
            process.rewind(1)
        for part in ("cannot go back to round 1", f"{len(lost)} clients", repr(lost[0]), "shards/b", "back"):
            assert part in str(caught.value)
        assert (process.last_round, values(process)) == (3, {c: min(i, 3) for i, c in enumerate(CLIENTS)})
        process.rewind(2)
        assert values(process) == {c: min(i, 2) for i, c in enumerate(CLIENTS)}
    with LocalStore(folder, keep_rounds=4) as store:  # it was only away
        process = store.open_process("p", {})
        process.rewind(1)
        assert values(process) == {c: min(i, 1) for i, c in enumerate(CLIENTS)}
        process.verify()


def test_restarted_clients_end_the_earlier_rounds(five):
    with LocalStore(five, keep_rounds=4) as store:
        process = store.open_process("p", {})
        process.commit(5, **round_of(5, cohort(5)))
        placement = process.record.placement
    kept = {c: n for c, n in (after(5)).items() if placement.homes(c) != ("b",)}
    with LocalStore(five, "ac", lost="restart", keep_rounds=4) as store:
        process = store.open_process("p", {})
        assert process.kept_rounds() == [5]
        assert values(process) == kept
    with LocalStore(five, keep_rounds=4) as store:  # what it has is too old
        process = store.open_process("p", {})
        assert values(process) == kept
        process.verify()
        assert kept.keys() >= set(store.fleet._shards["b"]._open("p").client_ids())


def test_data_that_no_kept_round_needs_is_deleted_on_all_shards(five):
    with LocalStore(five, "abcd", replicas=1, keep_rounds=2) as store:
        process = store.open_process("p", {})
        store.drain({"a"})
        shards = {name: shard._open("p") for name, shard in store.fleet._shards.items()}
        assert shards["a"].client_ids() != []  # of the rounds before
        for number in range(5, 9):
            process.commit(number, **round_of(number, CLIENTS[:1]))
        assert shards["a"].client_ids() == []
        for name in process.record.placement.homes(CLIENTS[0]):
            assert len(shards[name].kept_rounds()) == 3  # two, and what an attempt can undo


def test_a_repaired_shard_cannot_rewind_but_continues(five):
    (five / "shards" / "a" / "states" / "index.sqlite3").unlink()
    assert repair_store(five / "shards" / "a" / "states").lost == []
    with LocalStore(five, replicas=1, keep_rounds=4) as store:
        process = store.open_process("p", {})
        with pytest.raises(
            StoreError, match=r"shards/a holds version 6, .* has version 4 of it: it was repair"
        ):
            process.rewind(2)
        assert values(process) == after(4)
        process.commit(5, **round_of(5, CLIENTS))
        process.rewind(4)
        assert values(process) == after(4)


# Copies, and what is for its folders alone.


@pytest.mark.parametrize("steps", [None, 0, 1, 2])
def test_a_copy_is_of_the_last_committed_round_of_all_shards(folder, tmp_path, steps):
    if steps is not None:
        with CrashingStore(folder, replicas=1) as store:
            process = store.open_process("p", {})
            store.fleet.left = steps  # shards that have prepared the round
            with pytest.raises(CrashError):
                process.commit(2, **round_of(2, CLIENTS))
    with LocalStore(folder, replicas=1) as store:
        transfer_to_folder(store, tmp_path / "copy")
    with SqliteStore(tmp_path / "copy") as copy, LocalStore(tmp_path / "other", "xyz", replicas=1) as other:
        transfer(copy, other)
        for store in (copy, other):
            process = store.open_process("p", {})
            process.verify()
            assert (process.last_round, process.metadata) == (1, {"round": 1})
            assert process.read_server()["w"][0] == 1
            assert values(process) == AFTER_1


@pytest.mark.parametrize("part", ["index", "shards/a/states"])
def test_the_index_of_a_part_is_repaired_in_its_folder(folder, part):
    (folder / part / "index.sqlite3").unlink()
    with pytest.raises(StoreError):
        LocalStore(folder)
    assert repair_store(folder / part).lost == []
    with LocalStore(folder) as store:
        process = store.open_process("p", {})
        process.verify()
        assert values(process) == AFTER_1
        process.commit(2, **round_of(2, CLIENTS))
        assert set(values(process).values()) == {2}


def test_invalid_options_are_refused(folder):
    for options, message in (
        ({"lost": "ignore"}, "lost must be one of 'fail', 'restart'"),
        ({"replicas": -1}, "replicas must be a whole number of at least 0, found -1"),
        ({"partitions": 32}, "has 64 partitions, which cannot change to 32"),
    ):
        with pytest.raises(ConfigError, match=message):
            LocalStore(folder, **options)


# An index folder that is older than the shards.


def replace_index(folder, other):
    """Exchanges the index of a store for another one, which is kept."""
    shutil.rmtree(folder / "index")
    shutil.copytree(other, folder / "index")


def killed_after(folder, step):
    """Takes a step of process "p" in a program that then ends without closing the store."""
    program = f"""
import os, sys
from local_store import LocalStore
from fedplug.testing.rounds import round_of

process = LocalStore(sys.argv[1], keep_rounds=4).open_process("p", {{}})
{step}
os._exit(0)
"""
    # No fork: other tests of this process may have started gRPC, which can abort in the child.
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=COMMITTER.parent, check=True)


def lasting_files(folder):
    """Returns all files except the databases of shards, into which an opening merges their logs."""
    files = files_of(folder)
    return {path: files[path] for path in files if "shards" not in path.parts or ".sqlite3" not in path.name}


def check_refused(folder):
    """Checks twice that a store is refused, because refusing must not make the index look newer."""
    before = lasting_files(folder)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"newer than the index, which is an older copy.*nothing was"):
            LocalStore(folder, keep_rounds=4)
    assert lasting_files(folder) == before


STEPS = {
    "a round": 'process.commit(2, **round_of(2, [f"client {i}" for i in range(5)]))',
    "a round without clients": "process.commit(2, **round_of(2, []))",
    "a rewind": "process.rewind(0)",
}


@pytest.mark.parametrize("step", STEPS)
def test_an_index_one_commit_older_than_the_shards_is_refused(tmp_path, step):
    folder = tmp_path / "s"
    with LocalStore(folder, keep_rounds=4) as store:
        process = store.open_process("p", {})
        for number in range(2):
            process.commit(number, **round_of(number, CLIENTS[:: 1 + number]))
    shutil.copytree(folder / "index", tmp_path / "older")
    killed_after(folder, STEPS[step])
    shutil.copytree(folder / "index", tmp_path / "newer")
    replace_index(folder, tmp_path / "older")
    check_refused(folder)
    replace_index(folder, tmp_path / "newer")
    with LocalStore(folder, keep_rounds=4) as store:
        process = store.open_process("p", {})
        process.verify()
        assert process.last_round == (0 if step == "a rewind" else 2)


@pytest.mark.parametrize("content", [None, b"", b"5 5", b"\xff" * 32])
def test_a_damaged_confirmation_refuses_no_sound_store(folder, content):
    for shard in "abc":
        path = folder / "shards" / shard / "decided"
        path.unlink() if content is None else path.write_bytes(content)
    with LocalStore(folder) as store:
        process = store.open_process("p", {})
        assert values(process) == AFTER_1
        process.commit(2, **round_of(2, CLIENTS))
    with LocalStore(folder) as store:
        assert set(values(store.open_process("p", {})).values()) == {2}


def test_a_confirmation_needs_no_fsync_and_never_goes_down(folder, monkeypatch):
    with LocalStore(folder) as store:
        monkeypatch.setattr(os, "fsync", None)
        for generation in (10**12, 10**11):
            store.fleet.call("confirm", dict.fromkeys("abc", (generation,)))
        monkeypatch.undo()
    with pytest.raises(StoreError, match=f"had {10**12} before"):
        LocalStore(folder)
