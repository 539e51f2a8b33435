"""On a full disk the round is not committed, the one before is intact, and the store goes on later."""

from fedplug.stores.sqlite import SqliteStore

# The system's limit on the size of a file, instead of a full disk.
PROGRAM = """
import resource, sys
import numpy as np
from fedplug.errors import StoreError
from fedplug.stores.sqlite import SqliteStore

with SqliteStore(sys.argv[1]) as store:
    process = store.open_process("p", {})
    process.commit(0, client_states={"a": {"w": np.zeros(9)}}, server_state={})
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    clients = {f"client {i}": {"w": np.ones(100_000)} for i in range(50)}
    try:
        process.commit(1, client_states=clients, server_state={})
    except StoreError as error:
        print(error)
    assert process.last_round == 0, process.last_round
    assert process.client_ids() == ["a"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    process.commit(1, client_states=clients, server_state={})
    process.verify()
    print(process.last_round)
"""


def test_a_full_disk_leaves_the_previous_round_and_a_usable_store(tmp_path, python):
    result = python("-c", PROGRAM, tmp_path / "s")
    assert result.returncode == 0, result.stderr
    error, last_round = result.stdout.splitlines()
    assert "round 1 of process 'p' was not committed" in error
    assert "round 0 is intact" in error
    assert last_round == "1"
    with SqliteStore(tmp_path / "s") as store:
        process = store.open_process("p", {})
        process.verify()
        assert len(process.client_ids()) == 51
