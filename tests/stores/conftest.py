"""Helpers of the stores' tests: equality of states, and checks of committer.py's store."""

import pytest

from fedplug.stores.sqlite import SqliteStore
from fedplug.testing.kills import check_whole


def _same(found, expected):
    """Equal names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@pytest.fixture(scope="session")
def assert_same():
    return _same


def _whole(folder, last_said):
    """The store holds all of the round that was said to be committed, or all of the next one."""
    with SqliteStore(folder) as store:
        check_whole(store.open_process("p"), last_said)
        referred = {row.segment for row in store._index.segments()}
    assert {int(file.stem) for file in (folder / "segments").glob("*.segment")} == referred


@pytest.fixture(scope="session")
def assert_whole():
    return _whole
