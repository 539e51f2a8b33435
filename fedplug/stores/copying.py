"""Copies a store to a new folder while another process may have it open, and stores of any kind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedplug.errors import StoreError
from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.stores.files import whole_folder
from fedplug.stores.sqlite import SqliteStore

__all__ = ["copy_store", "transfer", "transfer_to_folder"]


def copy_store(source: str | Path, target: str | Path) -> None:
    """Copies the last committed round and the kept rounds before it to a new folder on any disk.

    The folder ``target`` appears when the copy is complete and on the disk. No commit waits for it.

    Args:
        source: The folder of a store, open or not, in this process or another.
        target: A folder that does not exist.

    Raises:
        StoreError: There is no store in ``source``. ``target`` exists, or a disk operation fails.
        CorruptStoreError: The file is damaged. Damaged states are copied unchanged, and `fedplug store
            verify` reports them in the copy, too.
    """
    with SqliteStore(source, looking=True) as store, _new_folder(Path(target)) as part:
        store.copy_to(part)


def transfer(source: StateStore, target: StateStore) -> None:
    """Copies the last round of all processes to an empty store of any kind, each in one commit.

    Only one state is in memory at a time. An error leaves only whole processes.

    Raises:
        StoreError: The target has processes, or a state cannot be read or stored.
    """
    if there := target.processes():
        raise StoreError(f"the target store already has processes ({there[0]!r}); name a new store")
    for name in source.processes():
        one = source.open_process(name)
        copy = target.open_process(name, one.signature)
        if one.last_round is not None:
            server = one.read_server()
            assert server is not None, "there is a round"
            copy.commit(
                one.last_round, client_states=_States(one), server_state=server, metadata=one.metadata
            )


def transfer_to_folder(source: StateStore, folder: str | Path) -> None:
    """Copies to a new folder, which appears when the copy is complete.

    Raises:
        StoreError: The folder exists, or copying fails. See `transfer`.
    """
    with _new_folder(Path(folder)) as part, SqliteStore(part) as target:
        transfer(source, target)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Makes a folder that appears when it is complete. Translates errors of the system."""
    if os.path.lexists(folder):
        raise StoreError(f"{folder} already exists; name a new folder for the copy")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as part:
            yield part
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from error


class _States(Mapping[str, Tensors]):
    """The states of all clients, each read on demand."""

    def __init__(self, process: ProcessState) -> None:
        self._process = process
        self._clients = process.client_ids()

    def __getitem__(self, client: str) -> Tensors:
        return self._process.read_clients([client])[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)
