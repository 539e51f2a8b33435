"""A copy taken while rounds are committed is a store of one of these rounds, whole."""

import json
import pathlib
import subprocess
import sys

import pytest
from stored import check_committed

from fedplug.errors import StoreError
from fedplug.stores.copying import copy_store
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


@pytest.fixture
def running(tmp_path):
    """A store that another process commits to all the time; yields how to read a line of what it says."""
    config = json.dumps({"path": str(tmp_path / "s")})
    command = [sys.executable, "-m", "fedplug.testing.rounds", "fedplug.stores.sqlite:SqliteStore", config]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        yield lambda: int(child.stdout.readline())
        assert child.poll() is None  # nothing that was done kept it from going on
        child.kill()


def last_round(folder):
    with SqliteStore(folder) as store:
        return store.open_process("p").last_round


def test_copies_of_a_running_store_are_whole_and_of_the_round_of_their_time(tmp_path, running):
    for number in range(5):
        before = running()
        copy_store(tmp_path / "s", tmp_path / f"copy {number}")
        copied = last_round(tmp_path / f"copy {number}")
        assert copied >= before
        check_committed(tmp_path / f"copy {number}", copied)
    assert {path.name for path in tmp_path.iterdir()} == {"s", *(f"copy {n}" for n in range(5))}


def test_a_store_is_copied_by_the_process_that_has_it_open_and_remains_its_own(tmp_path, python):
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a"]))
        copy_store(tmp_path / "s", tmp_path / "copy")
        assert last_round(tmp_path / "copy") == 0
        other = "import sys; from fedplug.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
        assert "StoreInUseError" in python("-c", other, tmp_path / "s").stderr
        process.commit(1, **round_of(1, ["a"]))


def test_a_copy_that_dies_leaves_nothing_that_looks_like_a_store_and_the_next_one_goes_through(
    tmp_path, python
):
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {}).commit(0, **round_of(0, ["a"]))
    program = (
        "import sys, stored; from fedplug.stores.copying import copy_store\n"
        "stored.die_at(1, 'fsync'); copy_store(*sys.argv[1:])"
    )
    folders = [tmp_path / "s", tmp_path / "copy"]
    done = python("-c", program, *folders, PYTHONPATH=str(pathlib.Path(__file__).parent))
    assert done.returncode == -9
    assert not (tmp_path / "copy").exists()
    copy_store(*folders)
    assert last_round(tmp_path / "copy") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"s", "copy"}


def test_a_running_store_can_be_looked_into(tmp_path, running):
    before = running()
    with SqliteStore(tmp_path / "s", looking=True) as store:
        process = store.open_process("p")
        assert process.last_round >= before
        assert process.metadata["cohort"][0] == f"client {process.last_round % 6}"
        assert "client 0" in process.client_ids()


def test_a_missing_source_or_an_existing_target_is_refused(tmp_path):
    with pytest.raises(StoreError, match="there is no store in"):
        copy_store(tmp_path / "s", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    with SqliteStore(tmp_path / "s") as store:
        store.open_process("p", {}).commit(0, **round_of(0, ["a"]))
    (tmp_path / "copy").mkdir()
    with pytest.raises(StoreError, match="already exists"):
        copy_store(tmp_path / "s", tmp_path / "copy")
