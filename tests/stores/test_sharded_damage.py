"""Damage to any file of a sharded store is reported or has no effect; no client gets another state."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
from local_store import LocalStore
from stored import files_of, flip

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.testing.rounds import round_of

CLIENTS = "abcdefgh"


@pytest.fixture
def folder(tmp_path):
    with LocalStore(tmp_path / "s", shards=("a", "b")) as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, CLIENTS))
        process.commit(1, **round_of(1, "abc"))
    return tmp_path / "s"


def state_or_error(folder):
    """What the clients and the server have, or the class of the error."""
    try:
        with LocalStore(folder, shards=("a", "b")) as store:
            process = store.open_process("p")
            found = process.read_clients(CLIENTS)
            assert found.keys() == set(CLIENTS)
            return {client: state["w"][0] for client, state in found.items()}, process.read_server()["w"][0]
    except StoreError as error:
        return type(error)


def test_a_flipped_bit_anywhere_is_reported_or_has_no_effect(folder, tmp_path):
    expected = state_or_error(folder)
    assert expected == ({client: int(client in "abc") for client in CLIENTS}, 1)
    chance, errors = random.Random(0), 0
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    for count in range(60):
        path = files[count % len(files)]
        size = (folder / path).stat().st_size
        if size:
            damaged = tmp_path / "damaged"
            shutil.copytree(folder, damaged)
            flip(damaged / path, chance.randrange(size), chance.randrange(8))
            found = state_or_error(damaged)
            assert found == expected or isinstance(found, type), path
            errors += isinstance(found, type)
            shutil.rmtree(damaged)
    assert errors > 5


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"null", b'{"format": 1}', b"\xff"])
def test_a_store_without_its_name_is_refused_and_nothing_changes(folder, content):
    """Another name would leave all shards behind."""
    if content is None:
        (folder / "cluster.json").unlink()
    else:
        (folder / "cluster.json").write_bytes(content)
    before = files_of(folder)
    with pytest.raises(
        CorruptStoreError, match=r"cluster\.json is (missing|damaged); restore it from a copy"
    ):
        LocalStore(folder, shards=("a", "b"))
    assert files_of(folder) == before


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_shard_whose_folder_is_emptied_is_reported(folder, lost):
    shutil.rmtree(folder / "shards" / lost / "states")
    assert isinstance(state_or_error(folder), type)


def test_an_index_that_was_lost_is_no_new_store(folder):
    shutil.rmtree(folder / "index")
    found = state_or_error(folder)
    assert isinstance(found, type)
    assert np.all([path.exists() for path in (folder / "shards" / "a" / "states" / "segments").iterdir()])
