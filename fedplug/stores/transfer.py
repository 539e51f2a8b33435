"""Copies the last round of each process from a store of any kind to a new store of any kind.

Only one state is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedplug.errors import StoreError
from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.stores.files import whole_folder
from fedplug.stores.sqlite import SqliteStore

__all__ = ["transfer", "transfer_to_folder"]


def transfer(source: StateStore, target: StateStore) -> None:
    """Copies all processes to an empty store, each in one commit. An error leaves only whole processes.

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
    folder = Path(folder)
    if os.path.lexists(folder):
        raise StoreError(f"{folder} already exists; name a new folder for the copy")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as part, SqliteStore(part) as target:
            transfer(source, target)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}") from error


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
