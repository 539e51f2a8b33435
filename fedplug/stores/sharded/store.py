"""The base of sharded stores: an index in a folder beside the driver, and the identity that shards share."""

from __future__ import annotations

import abc
import contextlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedplug.errors import ConfigError, CorruptStoreError, StoreError
from fedplug.stores import rules
from fedplug.stores.base import StateStore
from fedplug.stores.files import whole_file
from fedplug.stores.lock import FolderLock
from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.moving import arrive, move
from fedplug.stores.sharded.process import ShardedProcess
from fedplug.stores.sharded.rewinding import RewindableProcess
from fedplug.stores.sqlite import INDEX, SqliteStore
from fedplug.stores.turns import in_turn, refuse_copies

__all__ = ["Identity", "Options", "ShardedStore", "identity_of", "require_store"]

_IDENTITY = "cluster.json"
_INDEX = "index"
_LOST = ("fail", "restart")


@dataclass(frozen=True)
class Options:
    """Options of a sharded store. All except the partitions may differ at each opening.

    Attributes:
        replicas: Number of additional machines that keep each client's state. None leaves it unchanged.
        lost: The action if states are lost with a machine: ``"fail"`` or ``"restart"``.
        partitions: Number of partitions of a new store's clients. None means 64, or the existing number.
        keep_rounds: Number of rounds of each process to keep for rewinds.

    Raises:
        ConfigError: A value is not allowed.
    """

    replicas: int | None = 0
    lost: str = "fail"
    partitions: int | None = None
    keep_rounds: int = 1

    def __post_init__(self) -> None:
        if self.lost not in _LOST:
            raise ConfigError(f"lost must be one of {', '.join(map(repr, _LOST))}, found {self.lost!r}")
        for name, number, least in (
            ("replicas", self.replicas, 0),
            ("partitions", self.partitions, 1),
        ):
            if number is not None and (not isinstance(number, int) or number < least):
                raise ConfigError(f"{name} must be a whole number of at least {least}, found {number!r}")
        rules.check_keep_rounds(self.keep_rounds)


@dataclass(frozen=True)
class Identity:
    """The constant part of a sharded store: the name under which shards know it, and the partitions."""

    store: str
    partitions: int


class _CheckedIndex(SqliteStore):
    """An index that is not opened if ``admit`` refuses its generation by an error."""

    def __init__(self, path: Path, admit: Callable[[int], None]) -> None:
        self._refuses = admit
        super().__init__(path)

    def _admit(self, generation: int) -> None:
        self._refuses(generation)


class ShardedStore(StateStore):
    """Keeps client states on the shards of a fleet, and the clients' ids and the server state in an index.

    Opening a process recovers from a crash, and moves its states if shards were added or lost.

    Args:
        folder: The folder of the index, on a disk of this machine.
        options: The options.

    Raises:
        ConfigError: The store has another number of partitions.
        StoreError: The index is in use or older than a shard, or it or the shards cannot be opened.
        CorruptStoreError: The index is damaged.
    """

    process_type: ClassVar[type[RewindableProcess]] = RewindableProcess

    __reduce__ = refuse_copies

    def __init__(self, folder: Path, options: Options) -> None:
        folder = folder.absolute()
        self._options = options
        self._processes: dict[str, RewindableProcess] = {}
        identity = identity_of(folder, options.partitions)
        self._partitions = identity.partitions
        with contextlib.ExitStack() as undo:

            def admit(generation: int) -> None:
                self.fleet = self.connect(identity)
                undo.callback(self.fleet.close)
                self.fleet.call("check_index", dict.fromkeys(self.fleet.places, (generation,)))

            self._index = _CheckedIndex(folder / _INDEX, admit)
            self.turn = self._index.turn
            undo.pop_all()

    @abc.abstractmethod
    def connect(self, identity: Identity) -> Fleet:
        """Opens the shards. No one else has the store open."""

    @property
    def machines(self) -> Mapping[str, str]:
        """The machine and folder of each shard, by name."""
        return self.fleet.places

    @in_turn
    def open_process(self, process_id: str, signature: Mapping[str, Any] | None = None) -> RewindableProcess:
        """Opens a process. See `StateStore.open_process`.

        Raises:
            StoreError: The process cannot be opened, or a machine that holds its states is missing.
        """
        index = self._index.open_process(process_id, signature)
        if process_id not in self._processes:
            process = self.process_type(
                process_id, index, self.fleet, self._partitions, self._options.keep_rounds
            )
            arrive(process, self._replicas_of(process), self._options.lost)
            self._processes[process_id] = process
        return self._processes[process_id]

    def processes(self) -> list[str]:
        return self._index.processes()

    @in_turn
    def drain(self, shards: set[str]) -> None:
        """Moves all states away from shards, so that their machines can be removed.

        Raises:
            StoreError: No shard would be left, or a process cannot be opened. See `open_process`.
        """
        if not (left := set(self.fleet.places) - shards):
            raise StoreError("no machine would be left for the states; add one first")
        for process_id in self.processes():
            process = self.open_process(process_id)
            if process.record.versions:
                move(process, left, self._replicas_of(process))

    def close(self) -> None:
        """Closes the index and the shards, and passes the index's generation to the shards."""
        if not self.turn.is_of_parent():
            self._close()

    @in_turn
    def _close(self) -> None:
        generation = None
        with contextlib.suppress(StoreError):  # already closed
            generation = self._index.generation
        self._index.close()
        self.fleet.close(generation)

    def _replicas_of(self, process: ShardedProcess) -> int:
        asked = self._options.replicas
        return process.record.replicas if asked is None else asked


def require_store(folder: Path) -> None:
    """Raises `StoreError` unless a folder has the index of a sharded store."""
    if not (folder / _IDENTITY).is_file():
        raise StoreError(f"there is no sharded store in {folder}; name its folder on this machine")


def identity_of(folder: Path, partitions: int | None) -> Identity:
    """Returns the identity of the store in a folder, and creates one if there is none.

    Args:
        folder: The folder of the index.
        partitions: The required number of partitions. None means the existing number, or 64 for a new store.

    Raises:
        ConfigError: The store has another number of partitions.
        StoreError: The folder is something else, or cannot be used.
    """
    path = folder / _IDENTITY
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
        with contextlib.closing(lock), lock:
            if not path.exists():
                _create_identity(path, partitions or 64)
        value = json.loads(path.read_bytes())
        form, identity = int(value["format"]), Identity(str(value["store"]), int(value["partitions"]))
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStoreError(f"{path} is damaged; restore it from a copy") from error
    if form != 1:
        raise StoreError(f"{path} was written by a newer release of fedplug; use that one")
    if partitions not in (None, identity.partitions):
        raise ConfigError(
            f"the store in {folder} has {identity.partitions} partitions, which cannot change to {partitions}"
        )
    return identity


def _create_identity(path: Path, partitions: int) -> None:
    folder = path.parent
    if (folder / INDEX).exists():
        raise StoreError(f"{folder} is the folder of a sqlite:/// store; name a new folder")
    if (folder / _INDEX).exists():
        raise CorruptStoreError(f"{path} is missing; restore it from a copy: shards know the store by it")
    value = {"format": 1, "store": secrets.token_hex(4), "partitions": partitions}
    with whole_file(path) as file:
        file.write(json.dumps(value).encode())
