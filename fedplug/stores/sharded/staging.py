"""Staged states: files in a shard's folder that wait for their round, and last for one session.

They need not survive a crash of the machine: a round becomes durable when its states are committed to the
embedded store.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from fedplug.errors import StoreError
from fedplug.stores import blob
from fedplug.stores.base import Tensors

__all__ = ["Staged", "StagedStates", "Staging"]


@dataclass(frozen=True)
class Staged:
    """The name of a client's new state in the staging folders of all shards that will keep it."""

    name: str


class Staging:
    """The staging folder of a shard.

    Args:
        folder: The shard's folder for staged states.
        session: The session of the store's user. Files of other sessions are deleted.

    Raises:
        StoreError: The folder cannot be used.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self._folder = folder / session
        try:
            for old in folder.glob("*"):
                if old != self._folder:
                    shutil.rmtree(old, ignore_errors=True)
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder} cannot be used: {error.strerror}") from error

    def put(self, process_id: str, name: str, tensors: Tensors, owner: str) -> None:
        """Keeps a state of a process under a name.

        Raises:
            StoreError: The state cannot be stored, or a disk operation fails.
        """
        path = self._path(process_id, name)
        part = path.with_suffix(f".{secrets.token_hex(8)}.part")
        try:
            part.parent.mkdir(exist_ok=True)
            part.write_bytes(blob.encode(tensors, owner))
            part.rename(path)
        except OSError as error:
            raise StoreError(f"{owner}: {part} cannot be written: {error.strerror}") from error

    def read(self, process_id: str, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the state kept under a name.

        Raises:
            StoreError: There is no such state, because its round was abandoned meanwhile.
        """
        path = self._path(process_id, name)
        try:
            return blob.decode(path.read_bytes())
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}; run the round again") from error

    def clear(self, process_id: str) -> None:
        """Deletes all staged states of a process, after its round was committed or abandoned."""
        shutil.rmtree(self._path(process_id, "").parent, ignore_errors=True)

    def _path(self, process_id: str, name: str) -> Path:
        return self._folder / blake2b(process_id.encode(), digest_size=8).hexdigest() / f"{name}.state"


class StagedStates(Mapping[str, Tensors]):
    """States by client. Staged ones are read on demand, one at a time."""

    def __init__(self, states: Mapping[str, Tensors | Staged], process_id: str, staging: Staging) -> None:
        self._states = states
        self._process_id = process_id
        self._staging = staging

    def __getitem__(self, client_id: str) -> Tensors:
        state = self._states[client_id]
        if isinstance(state, Staged):
            return self._staging.read(self._process_id, state.name)
        return state

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)
