"""Going back a number of rounds: what every store with ``keep_rounds=`` on disks does."""

import pytest
from local_store import LocalStore
from stored import values

from fedplug.errors import ConfigError, StoreError
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of


@pytest.fixture(params=[SqliteStore, LocalStore])
def store_type(request):
    return request.param


@pytest.fixture
def folder(store_type, tmp_path):
    """Rounds 0 to 4, of which the last 3 are kept; client 'late' joins in round 4."""
    with store_type(tmp_path / "s", keep_rounds=3) as store:
        process = store.open_process("p", {})
        for number, clients in enumerate(["ab", "b", "a", "ab", ["a", "late"]]):
            process.commit(number, **round_of(number, list(clients)))
    return tmp_path / "s"


def test_a_rewind_restores_replaced_states_and_removes_later_clients(store_type, folder):
    with store_type(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        assert process.kept_rounds() == [2, 3, 4]
        assert values(process) == {"a": 4, "b": 3, "late": 4}
        process.rewind(2)
        assert (process.last_round, process.metadata) == (2, {"round": 2})
        assert values(process) == {"a": 2, "b": 1}
        assert process.read_server()["w"][0] == 2
        process.verify()
        with pytest.raises(StoreError, match="round 4 of process 'p' is not kept; kept are: 2"):
            process.rewind(4)
    with store_type(folder) as store:  # permanent
        assert values(store.open_process("p")) == {"a": 2, "b": 1}


def test_training_continues_from_the_round_of_a_rewind(store_type, folder):
    with store_type(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        process.rewind(3)
        process.commit(4, **round_of(40, ["b"]))
        assert values(process) == {"a": 3, "b": 40}
        assert process.kept_rounds() == [2, 3, 4]
        process.verify()
        process.rewind(2)
        assert values(process) == {"a": 2, "b": 1}


def test_a_rewind_to_the_last_round_changes_nothing(store_type, folder):
    with store_type(folder, keep_rounds=3) as store:
        process = store.open_process("p")
        process.rewind(4)
        assert process.kept_rounds() == [2, 3, 4]
        assert values(process) == {"a": 4, "b": 3, "late": 4}


def test_rounds_are_removed_by_a_commit_and_not_by_an_opening(store_type, folder):
    with store_type(folder) as store:
        process = store.open_process("p")
        assert process.kept_rounds() == [2, 3, 4]
        process.commit(5, **round_of(5, "b"))
        assert process.kept_rounds() == [5]
        with pytest.raises(StoreError, match="round 4 of process 'p' is not kept; kept are: 5"):
            process.rewind(4)
        assert values(process) == {"a": 4, "b": 5, "late": 4}


def test_a_failed_commit_removes_no_round(store_type, folder):
    with store_type(folder) as store:
        process = store.open_process("p")
        with pytest.raises(StoreError, match="was not committed"):
            process.commit(5, client_states={"a": {"w": "no array"}}, server_state={})
        assert process.kept_rounds() == [2, 3, 4]
        process.rewind(2)
        assert values(process) == {"a": 2, "b": 1}


@pytest.mark.parametrize("number", [0, -1, 1.5, "3"])
def test_an_invalid_number_of_rounds_is_refused(store_type, tmp_path, number):
    with pytest.raises(ConfigError, match="keep_rounds"):
        store_type(tmp_path / "s", keep_rounds=number)
    assert list(tmp_path.iterdir()) == []
