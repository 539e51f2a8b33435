"""The part of one machine in a sharded store: an embedded store on its disk, and its side of the two phases.

To *prepare* a version is to commit it to the embedded store, which also keeps the versions that the index may
return to. A prepared version is durable and can be undone. The index decides whether it is used. To *settle*
is to go to the version in the index: nothing to do if that was prepared last, or a rewind if it is older. A
shard therefore has no work after the decision, and a crash then loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import system
from fedplug.stores.base import Tensors
from fedplug.stores.files import file_in_place
from fedplug.stores.sharded.placement import partition_of
from fedplug.stores.sharded.staging import Staged, StagedStates, Staging
from fedplug.stores.sqlite import SqliteStore
from fedplug.stores.sqlite_process import SqliteProcess

__all__ = ["Reader", "Shard"]

_AT_A_TIME = 8  # states to copy from another shard at a time
_NUMBER_SIZE = 32  # bytes


class Reader(Protocol):
    """Another shard as a source of states."""

    def read(
        self, process_id: str, version: int, client_ids: Sequence[str]
    ) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """Reads the states of clients. See `Shard.read`."""


class Shard:
    """The states of some clients, for any number of processes.

    The sharded store gives each attempt to commit a version number. Later attempts have higher numbers, and
    no number is used twice between two openings. Only the store's user prepares and settles. Others may read
    and stage at the same time.

    Args:
        folder: The folder on this machine's disk.
        session: A name for the time between opening and closing the sharded store.

    Raises:
        StoreError: The embedded store cannot be opened. See `SqliteStore`.
    """

    def __init__(self, folder: str | Path, session: str) -> None:
        self._folder = Path(folder).absolute()
        self._store = SqliteStore(self._folder / "states")
        self._staging = Staging(self._folder / "staged", session)
        self._confirmed = _Highest(self._folder / "decided")
        self._turn = threading.Lock()

    def settle(self, process_id: str, version: int, latest: int | None) -> None:
        """Goes to the version in the index, so that nothing undecided is left.

        Args:
            process_id: The process.
            version: The version: the last one prepared, or an earlier kept one.
            latest: The highest version tried since the store was opened, which makes delayed calls
                harmless. None if there was no attempt yet.

        Raises:
            StoreError: This shard does not have the version.
        """
        with self._turn:
            process = self._open(process_id)
            held = _version(process)
            if held is None or latest is None or held <= latest:
                self._go_to(process, version)
            self._staging.clear(process_id)

    def confirm(self, generation: int) -> None:
        """Records that the index has this generation, so that `check_index` refuses older copies.

        Without an fsync, the record survives a kill, but perhaps no power failure before the next `prepare`.

        Raises:
            StoreError: A disk operation fails; only `check_index` becomes weaker.
        """
        with self._turn:
            self._confirmed.raise_to(generation)

    def check_index(self, generation: int) -> None:
        """Checks that the index is not an older copy, by its generation, which never decreases.

        Args:
            generation: The generation of the index.

        Raises:
            StoreError: The index had a later generation when it was confirmed, or at the last prepare.
        """
        with self._turn:
            kept = (self._open(process_id).kept_metadata() for process_id in self._store.processes())
            seen = (seen for versions in kept for _, seen in versions.values())
            latest = max(self._confirmed.value, *seen, 0)
            if latest > generation:
                raise StoreError(
                    f"{self._folder} is newer than the index, which is an older copy: it has {generation} "
                    f"transactions, and had {latest} before; nothing was changed; restore an index and "
                    "shards of the same time"
                )

    def check_kept(self, process_id: str, version: int) -> None:
        """Checks that this shard can settle to a version.

        Raises:
            StoreError: The version is not kept.
        """
        with self._turn:
            self._round_of(self._open(process_id), version)

    def read(
        self, process_id: str, version: int, client_ids: Sequence[str]
    ) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """Returns the states of these clients as of a version.

        Raises:
            CorruptStoreError: A state is damaged or missing.
            StoreError: The shard holds another version: another round was committed meanwhile.
        """
        with self._turn:
            process = self._at(process_id, version)
            found = process.read_clients(client_ids)
        missing = [client for client in client_ids if client not in found]
        if missing:
            raise CorruptStoreError(
                f"{self._folder}: the state of client {missing[0]!r} of process {process_id!r} should be "
                "here but is missing; restore the folder from a copy, or drop the client"
            )
        return found

    def stage(self, process_id: str, name: str, client_id: str, tensors: Tensors) -> None:
        """Keeps a client's new state under a unique name until its round is prepared.

        Raises:
            StoreError: The state cannot be stored, or a disk operation fails.
        """
        self._staging.put(process_id, name, tensors, f"client {client_id!r}")

    def copy_from(
        self, process_id: str, sources: Sequence[tuple[Reader, int, Sequence[str]]]
    ) -> dict[str, Staged]:
        """Stages the states of clients from other shards at the given versions. Returns them by client.

        Raises:
            StoreError: Reading or staging fails. See `read` and `stage`.
        """
        copied: dict[str, Staged] = {}
        for source, version, client_ids in sources:
            for first in range(0, len(client_ids), _AT_A_TIME):
                some = source.read(process_id, version, client_ids[first : first + _AT_A_TIME])
                for client_id, tensors in some.items():
                    staged = Staged(f"copy-{len(copied)}")
                    self.stage(process_id, staged.name, client_id, tensors)
                    copied[client_id] = staged
        return copied

    def prepare(
        self,
        process_id: str,
        before: int | None,
        oldest: int | None,
        version: int,
        generation: int,
        states: Mapping[str, Tensors | Staged],
    ) -> None:
        """Commits new states durably. The states before stay, because the index may return to them.

        Args:
            process_id: The process.
            before: The version of this shard in the index. None means it has none. Then leftovers of the
                process here are deleted.
            oldest: The oldest version of this shard that the index needs. Earlier ones are deleted.
            version: The new version.
            generation: The generation of the index.
            states: The new states of the clients that change.

        Raises:
            StoreError: A state cannot be stored, or a disk operation fails. Settling remains possible.
        """
        with self._turn:
            process = self._open(process_id)
            held = _version(process)
            if held is not None and before is not None and held >= version:
                if held == version:
                    return  # a repeated call: this shard restarted before it could answer
                raise StoreError(f"{self._folder}: version {version} was abandoned; now it is {held}")
            if before is None:
                process.drop_clients(process.client_ids())
            else:
                self._go_to(process, before)
            number = 0 if process.last_round is None else process.last_round + 1
            process.commit(
                number,
                client_states=StagedStates(states, process_id, self._staging),
                server_state={},
                metadata=[version, generation],
                oldest=number if oldest is None else _first_from(process, oldest),
            )
            self._staging.clear(process_id)

    def tidy(self, process_id: str, partitions: int, own: Iterable[int]) -> None:
        """Deletes the states of clients outside the shard's own partitions, after they were moved away.

        Raises:
            StoreError: A disk operation fails.
        """
        kept = set(own)
        with self._turn:
            process = self._open(process_id)
            process.drop_clients(
                client for client in process.client_ids() if partition_of(client, partitions) not in kept
            )

    def damage(self, process_id: str, clients: Mapping[int, Iterable[str]]) -> list[str]:
        """Reads all data of a process, and checks that each version has the clients it should have.

        Args:
            process_id: The process.
            clients: The clients of the last version and of each version that a rewind may need.

        Returns:
            A line for each damage.
        """
        with self._turn:
            process = self._open(process_id)
            damage = list(process.damage())
            try:
                for version, client_ids in clients.items():
                    there = process.client_ids_at(self._round_of(process, version))
                    if missing := sorted({*client_ids}.difference(there)):
                        damage.append(
                            f"{self._folder}: {len(missing)} clients of process {process_id!r} should be "
                            f"here but are missing, for example {missing[0]!r}"
                        )
            except StoreError as error:
                damage.append(str(error))
            return damage

    def close(self, generation: int | None = None) -> None:
        """Releases the folder.

        Args:
            generation: The generation of the index, to confirm it durably. None if unknown.
        """
        self._store.close()
        if generation is not None:
            with contextlib.suppress(StoreError):  # only `check_index` becomes weaker
                self._confirmed.raise_to(generation)
                self._confirmed.sync()

    def _open(self, process_id: str) -> SqliteProcess:
        return self._store.open_process(process_id, {})

    def _at(self, process_id: str, version: int) -> SqliteProcess:
        process = self._open(process_id)
        held = _version(process)
        if held != version:
            raise StoreError(
                f"{self._folder} holds version {held} of process {process_id!r}, but {version} is requested: "
                "another round was committed or is being committed"
            )
        return process

    def _go_to(self, process: SqliteProcess, version: int) -> None:
        number = self._round_of(process, version)
        if number != process.last_round:
            process.rewind(number)

    def _round_of(self, process: SqliteProcess, version: int) -> int:
        """Returns the round of the embedded store that holds a version.

        Raises:
            StoreError: The version is not kept.
        """
        kept = {held: number for number, held in _versions(process).items()}
        if version not in kept:
            raise StoreError(
                f"{self._folder} holds version {_version(process)}, but the index has version {version} of "
                "it: it was repaired, or one of the two is an older copy; restore both from copies of the "
                "same time"
            )
        return kept[version]


class _Highest:
    """The highest number written to a file, in place; 0 if the file is missing or damaged.

    Attributes:
        value: The number.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            text = b""
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        number, _, checksum = text.rstrip().partition(b" ")
        self.value = int(number) if checksum == b"%d" % zlib.crc32(number) else 0

    def raise_to(self, number: int) -> None:
        """Writes a higher number; a lower one changes nothing."""
        if number <= self.value:
            return
        text = b"%d" % number
        # One write of a fixed length: a kill leaves the old number or the new one.
        with file_in_place(self._path) as file:
            file.write((b"%s %d" % (text, zlib.crc32(text))).ljust(_NUMBER_SIZE))
        self.value = number

    def sync(self) -> None:
        """Waits until the number is on the disk."""
        with file_in_place(self._path) as file:
            os.fsync(file)
        system.sync_folder(self._path.parent)


def _versions(process: SqliteProcess) -> dict[int, int]:
    """Returns the kept versions, by round of the embedded store."""
    return {number: metadata[0] for number, metadata in process.kept_metadata().items()}


def _version(process: SqliteProcess) -> int | None:
    """Returns the version that the shard holds."""
    return None if process.metadata is None else process.metadata[0]


def _first_from(process: SqliteProcess, version: int) -> int:
    """Returns the first round of the embedded store that holds this version or a later one."""
    return next(number for number, held in _versions(process).items() if held >= version)
