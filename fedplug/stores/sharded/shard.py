"""What one machine does for a sharded store: an embedded store on its own disk, and its part in two phases.

To *prepare* a version is to commit it to the embedded store, which keeps the versions that the index may yet
go back to, too: it is durable, and can be undone. Whether it counts, the index of the sharded store decides.
To *settle* is to go to the version that the index has: nothing to do where that was prepared last, some
rounds back where it was one before. So there is nothing to be done after the decision, be it for a round or
for going back, and nothing to be lost by dying then.
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
from fedplug.stores.base import Tensors
from fedplug.stores.segment import sync_folder
from fedplug.stores.sharded.placement import partition_of
from fedplug.stores.sharded.staging import Staged, StagedStates, Staging
from fedplug.stores.sqlite import SqliteStore
from fedplug.stores.sqlite_process import SqliteProcess

__all__ = ["Reader", "Shard"]

_AT_A_TIME = 8  # states copied from another shard at a time


class Reader(Protocol):
    """Another shard, to read from."""

    def read(
        self, process_id: str, version: int, client_ids: Sequence[str]
    ) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """As `Shard.read`."""


class Shard:
    """The states of some clients, of any number of processes.

    A version is a number that the sharded store gives to its attempts to commit; it never gives one twice
    between two openings, and later attempts have higher ones. Only the store's one user prepares and
    settles; others read and stage, at the same time.

    Args:
        folder: On the disk of this machine.
        session: A name for the time between opening and closing the sharded store.

    Raises:
        StoreError: As `SqliteStore`.
    """

    def __init__(self, folder: str | Path, session: str) -> None:
        self._folder = Path(folder)
        self._store = SqliteStore(self._folder / "states")
        self._staging = Staging(self._folder / "staged", session)
        self._decided = _Number(self._folder / "decided")
        self._turn = threading.Lock()

    def settle(self, process_id: str, version: int, latest: int | None) -> None:
        """Goes to the version that the index has, so that nothing undecided is left.

        Args:
            process_id: Of the process.
            version: The version; prepared last, or one of those kept from before.
            latest: The highest that was given to an attempt since the store was opened, so that a call which
                comes too late has no effect; None: there was no attempt yet.

        Raises:
            StoreError: This shard has it not.
        """
        with self._turn:
            process = self._open(process_id)
            held = _version(process)
            if held is None or latest is None or held <= latest:
                self._go_to(process, version)
            self._staging.clear(process_id)

    def check_index(self, process_id: str, generation: int) -> None:
        """Makes sure that the index is not an older copy: its generation never decreases.

        Args:
            process_id: The process.
            generation: The generation of the index.

        Raises:
            StoreError: The index had a later generation when a version was prepared, or the store was closed.
        """
        with self._turn:
            kept = self._open(process_id).kept_metadata().values()
            latest = max(self._decided.read(), *(seen for _, seen in kept))
            if latest > generation:
                raise StoreError(
                    f"{self._folder} is newer than the index, which is an older copy: it has {generation} "
                    f"transactions, and had {latest} before; nothing was changed; bring back an index and "
                    "shards of the same time"
                )

    def check_kept(self, process_id: str, version: int) -> None:
        """Makes sure that this shard can be settled to a version.

        Raises:
            StoreError: It cannot.
        """
        with self._turn:
            self._round_of(self._open(process_id), version)

    def read(
        self, process_id: str, version: int, client_ids: Sequence[str]
    ) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """The states of these clients, as of a version.

        Raises:
            CorruptStoreError: One is damaged or missing.
            StoreError: That is not the version held: another round was committed meanwhile.
        """
        with self._turn:
            process = self._at(process_id, version)
            found = process.read_clients(client_ids)
        missing = [client for client in client_ids if client not in found]
        if missing:
            raise CorruptStoreError(
                f"{self._folder}: the state of client {missing[0]!r} of process {process_id!r} should be "
                "here and is not; restore the folder from a copy, or drop the client"
            )
        return found

    def stage(self, process_id: str, name: str, client_id: str, tensors: Tensors) -> None:
        """Keeps a client's new state until its round is prepared, under a name that nobody else uses.

        Raises:
            StoreError: It cannot be stored, or the disk refuses.
        """
        self._staging.put(process_id, name, tensors, f"client {client_id!r}")

    def copy_from(
        self, process_id: str, sources: Sequence[tuple[Reader, int, Sequence[str]]]
    ) -> dict[str, Staged]:
        """Stages the states of clients that other shards have, each with its version; returns them by client.

        Raises:
            StoreError: As `read` and `stage`.
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
        """Makes new states durable; those before are kept as well, as the index may go back to them.

        Args:
            process_id: Of the process.
            before: The version that the index has of this shard; None: it has none, and what is here of the
                process, from an attempt that was given up or from long ago, is deleted.
            oldest: The oldest version that the index has of this shard; those before it are deleted.
            version: The one that is made.
            generation: The generation of the index.
            states: Of the clients that change.

        Raises:
            StoreError: A state cannot be stored, or the disk refuses; this shard can still be settled.
        """
        with self._turn:
            process = self._open(process_id)
            held = _version(process)
            if held is not None and before is not None and held >= version:
                if held == version:
                    return  # done before: the answer was lost with a restart of this shard
                raise StoreError(f"{self._folder}: version {version} was given up; now it is {held}")
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
        """Deletes the states of clients of other than its own partitions, after these were moved away.

        Raises:
            StoreError: The disk refuses.
        """
        kept = set(own)
        with self._turn:
            process = self._open(process_id)
            process.drop_clients(
                client for client in process.client_ids() if partition_of(client, partitions) not in kept
            )

    def damage(self, process_id: str, clients: Mapping[int, Iterable[str]]) -> list[str]:
        """Reads everything that is kept of a process, and checks that each version has the clients it should.

        Args:
            process_id: The process.
            clients: The clients of each version that may be gone back to, and of the last.

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
                            f"here and are not, for instance {missing[0]!r}"
                        )
            except StoreError as error:
                damage.append(str(error))
            return damage

    def close(self, generation: int | None = None) -> None:
        """Releases the folder.

        Args:
            generation: The generation of the index, which `check_index` compares from then on; None: unknown.
        """
        self._store.close()
        if generation is not None:
            with contextlib.suppress(StoreError):  # all that is lost is the knowledge of the last round
                self._decided.write(generation)

    def _open(self, process_id: str) -> SqliteProcess:
        return self._store.open_process(process_id, {})

    def _at(self, process_id: str, version: int) -> SqliteProcess:
        process = self._open(process_id)
        held = _version(process)
        if held != version:
            raise StoreError(
                f"{self._folder} holds version {held} of process {process_id!r}, and {version} is asked for: "
                "another round was committed or is being committed"
            )
        return process

    def _go_to(self, process: SqliteProcess, version: int) -> None:
        number = self._round_of(process, version)
        if number != process.last_round:
            process.rewind(number)

    def _round_of(self, process: SqliteProcess, version: int) -> int:
        """The round of the embedded store that is a version.

        Raises:
            StoreError: It is not kept.
        """
        kept = {held: number for number, held in _versions(process).items()}
        if version not in kept:
            raise StoreError(
                f"{self._folder} holds version {_version(process)}, and the index has version {version} of "
                "it: it was repaired, or one of the two is an older copy; restore both from copies of the "
                "same time"
            )
        return kept[version]


class _Number:
    """A number in a file, replaced as a whole; 0 if there is none, or a damaged one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> int:
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}") from error
        number, _, checksum = text.partition(b" ")
        return int(number) if checksum == b"%d" % zlib.crc32(number) else 0

    def write(self, number: int) -> None:
        part, text = self._path.with_suffix(".part"), b"%d" % number
        try:
            with part.open("wb") as file:
                file.write(b"%s %d" % (text, zlib.crc32(text)))
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error


def _versions(process: SqliteProcess) -> dict[int, int]:
    """The versions that are kept, by round of the embedded store."""
    return {number: metadata[0] for number, metadata in process.kept_metadata().items()}


def _version(process: SqliteProcess) -> int | None:
    """The version that is held."""
    return None if process.metadata is None else process.metadata[0]


def _first_from(process: SqliteProcess, version: int) -> int:
    """The first round of the embedded store that is this version, or a later one."""
    return next(number for number, held in _versions(process).items() if held >= version)
