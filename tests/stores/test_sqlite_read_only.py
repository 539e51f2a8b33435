"""A store on a disk that cannot be written to, a snapshot or a backup, can be shown, verified and copied."""

import shutil
import subprocess
import sys

import pytest

from fedplug.stores.sqlite import SqliteStore

# Ends as by kill -9, with all rounds in the log.
COMMIT = """
import os, sys
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of
store = SqliteStore(sys.argv[1])
for number in range(3):
    store.open_process("p", {}).commit(number, **round_of(number, "abc"))
if sys.argv[2] == "closed":
    store.close()
os._exit(0)
"""
MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
USE = """
import sys
import fedplug
from fedplug.errors import StoreError
from fedplug.stores import look_into
from fedplug.testing.rounds import round_of
url = "sqlite:///" + sys.argv[1]
with look_into(url) as store:
    process = store.open_process("p")
    print(process.last_round, process.read_clients("abc")["c"]["w"][0], process.read_server()["w"][0])
    changes = [
        lambda: process.commit(3, **round_of(3, "a")), lambda: process.rewind(1),
        lambda: process.drop_damaged(), lambda: store.open_process("q", {}),
        lambda: fedplug.open_store(url),
    ]
    for change in changes:
        try:
            change()
        except StoreError as error:
            print(error)
    print(process.last_round, store.processes())
"""


@pytest.fixture(params=["closed", "killed"])
def folder(request, tmp_path, python):
    assert python("-c", COMMIT, tmp_path / "s", request.param).returncode == 0
    return tmp_path / "s"


@pytest.fixture
def on_read_only_disk(folder):
    """Returns a function that runs Python where the folder is on a read-only disk."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no disk can be mounted here")
    before = {path.name for path in folder.rglob("*")}

    def run(*arguments):
        done = subprocess.run(
            [*unshare, sys.executable, *arguments], capture_output=True, text=True, check=False
        )
        assert {path.name for path in folder.rglob("*")} == before
        return done.returncode, done.stdout, done.stderr

    return run


def test_it_is_shown_verified_and_copied(folder, tmp_path, on_read_only_disk):
    command = ("-m", "fedplug", "store")
    code, out, error = on_read_only_disk(*command, "show", str(folder))
    assert (code, error) == (0, "")
    assert out.splitlines()[1].split() == ["p", "2", "3"]
    assert on_read_only_disk(*command, "verify", str(folder)) == (0, "ok    process 'p'\n", "")
    for target in ("copy", f"sqlite:///{tmp_path / 'another'}"):
        target = target if "://" in target else str(tmp_path / target)
        code, _, error = on_read_only_disk(*command, "copy", str(folder), target)
        assert (code, error) == (0, "")
    for name in ("copy", "another"):
        with SqliteStore(tmp_path / name) as store:
            process = store.open_process("p")
            process.verify()
            assert process.last_round == 2


def test_it_is_read_and_every_change_is_an_error(folder, on_read_only_disk):
    code, out, error = on_read_only_disk("-c", USE, str(folder))
    assert (code, error) == (0, "")
    first, *refused, last = out.splitlines()
    assert first == "2 2.0 2.0"
    assert len(refused) == 5
    assert all("was opened for reading only" in refused[change] for change in (0, 2, 3))
    assert "cannot be written to" in refused[4]
    assert all(str(folder) in refused[change] for change in (0, 2, 3, 4))
    assert last == "2 ['p']"
