"""Going back in a store on disk, and the frozen format of stores."""

import pathlib
import shutil

import pytest
from stored import values

from fedplug.errors import ConfigError, StoreError
from fedplug.stores import open_store
from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.rounds import round_of

FORMAT_1 = pathlib.Path(__file__).with_name("golden") / "format_1"
"""A store that every later release must open: rounds 0 to 5 of "abcd", "ab", "", "c", "bd" and "a"."""


@pytest.fixture
def folder(tmp_path):
    """Rounds 0 to 4, of which the last 3 are kept; client 'late' joins in round 4."""
    with SqliteStore(tmp_path / "s", keep_rounds=3) as store:
        process = store.open_process("p", {})
        for number, clients in enumerate(["ab", "b", "a", "ab", ["a", "late"]]):
            process.commit(number, **round_of(number, list(clients)))
    return tmp_path / "s"


def test_rounds_are_removed_with_their_space_by_a_commit_and_not_by_an_opening(folder):
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        assert process.kept_rounds() == [2, 3, 4]
        process.commit(5, **round_of(5, "b"))
        assert process.kept_rounds() == [5]
        with pytest.raises(StoreError, match="round 4 of process 'p' is not kept; kept are: 5"):
            process.rewind(4)
        assert values(process) == {"a": 4, "b": 5, "late": 4}


def test_a_failed_commit_removes_no_round(folder):
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        with pytest.raises(StoreError, match="was not committed"):
            process.commit(5, client_states={"a": {"w": "no array"}}, server_state={})
        assert process.kept_rounds() == [2, 3, 4]
        process.rewind(2)
        assert values(process) == {"a": 2, "b": 1}


def test_the_option_is_part_of_the_url_and_of_the_config(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/s?keep_rounds=5") as store:
        assert store.get_config() == {"path": f"{tmp_path}/s", "keep_rounds": 5}
    with open_store(f"sqlite:///{tmp_path}/what?") as store:
        assert store.get_config() == {"path": f"{tmp_path}/what?", "keep_rounds": 1}


@pytest.mark.parametrize("count", ["", "0", "-1", "x", "1.5", "5&x=1", f"{2**63}", "9" * 5000])
def test_an_invalid_number_of_rounds_is_refused(tmp_path, count):
    with pytest.raises(ConfigError, match="keep_rounds"):
        open_store(f"sqlite:///{tmp_path}/s?keep_rounds={count}")
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_format_1_opens_and_continues(tmp_path):
    shutil.copytree(FORMAT_1, tmp_path / "s")
    with SqliteStore(tmp_path / "s", keep_rounds=2) as store:
        assert store.processes() == ["new", "p"]
        process = store.open_process("p", {"fraction": 0.01})
        assert (process.last_round, process.metadata) == (5, {"round": 5})
        assert values(process) == {"a": 5, "b": 4, "c": 3, "d": 4}
        process.verify()
        process.commit(6, **round_of(6, ["a", "c"]))
        process.rewind(5)
        assert values(process) == {"a": 5, "b": 4, "c": 3, "d": 4}
        process.verify()
