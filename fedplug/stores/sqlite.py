"""``sqlite:///path``: a store in a folder, safe against crashes, full disks and damaged files.

A round is written as one new segment file, waited for until it is on the disk, and then made valid by one
SQLite transaction. A crash before that leaves a segment that nothing refers to, which the next opening
deletes. Only the last round is kept: the transaction that adds a round is also the one that lets go of what
it replaces.

The layout of a store's folder::

    index.sqlite3            which blob lies where (`fedplug.stores.index`)
    segments/NNN.segment     the blobs (`fedplug.stores.segment`), each a safetensors document
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedplug.errors import ConfigError, StoreError
from fedplug.stores import blob, rules
from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.stores.index import SERVER, Entry, Index, ProcessRow, client_owner
from fedplug.stores.segment import SegmentFolder, sync_folder

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["SqliteStore"]

_PREFIX = "sqlite:///"
_INDEX = "index.sqlite3"
_SEGMENTS = "segments"


class SqliteStore(StateStore):
    """The embedded default."""

    name: ClassVar[str] = "sqlite"

    def __init__(self, path: str | Path) -> None:
        """Opens the store in the folder ``path``, and makes the folder where there is none.

        Raises:
            StoreError: The path is a file or the folder of something else; the store is in use, or of a newer
                format.
            CorruptStoreError: The index is damaged.
        """
        self._path = Path(path)
        _prepare(self._path)
        # The folder of segments is made after the index: where it is, an empty index is a lost index.
        self._index = Index(self._path / _INDEX, create=not (self._path / _SEGMENTS).exists())
        try:
            self._segments = SegmentFolder(self._path / _SEGMENTS)
            sync_folder(self._path)
            live = self._index.segments()
            for orphan in set(self._segments.ids()) - live:
                self._segments.remove(orphan)
            self._collect(live)
        except BaseException:
            self._index.close()
            raise

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``sqlite:///relative/path`` or ``sqlite:////absolute/path``; the path is not decoded."""
        path = url.removeprefix(_PREFIX)
        if path == url or not path:
            raise ConfigError(f"{url!r}: write 'sqlite:///relative/path' or 'sqlite:////absolute/path'")
        if path.startswith("~"):  # shells expand it in front of a word only
            raise ConfigError(f"{url!r}: the home folder has to be written out, as 'sqlite:////home/...'")
        return cls(path)

    def get_config(self) -> dict[str, Any]:
        """The path."""
        return {"path": str(self._path)}

    def open_process(self, process_id: str, signature: Mapping[str, Any] | None = None) -> ProcessState:
        row = self._index.process(rules.check_text("process id", process_id))
        if row is None and signature is None:
            raise rules.no_such_process(str(self._path), process_id, self.processes())
        if row is None:
            with self._index.transaction():
                self._index.put_process(
                    ProcessRow(process_id, rules.to_json("signature", signature), None, "null")
                )
        elif signature is not None:
            rules.check_signature(str(self._path), process_id, row.signature, signature)
        return _SqliteProcess(process_id, self, self._index, self._segments)

    def processes(self) -> list[str]:
        return self._index.processes()

    def close(self) -> None:
        self._index.close()

    def _collect(self, segments: Iterable[int]) -> None:
        """Frees the space of what was replaced in these segments.

        A segment without living blobs is deleted; one of which less than half is alive has its living blobs
        moved to a new segment. So the segments never take more than twice what is alive, and every byte freed
        costs at most one byte copied.

        Nothing is lost when this fails, so it does so in silence: a full disk leaves the garbage to a later
        opening, and damaged blobs stay where they are, for a read or `verify` to name.
        """
        with suppress(StoreError):
            self._collect_or_raise(segments)

    def _collect_or_raise(self, segments: Iterable[int]) -> None:
        sparse = []
        for segment in segments:
            live = self._index.live_bytes(segment)
            if live == 0:
                self._segments.remove(segment)
            elif 2 * live < self._segments.size(segment):
                sparse.append(segment)
        if sparse:
            self._move([entry for segment in sparse for entry in self._index.entries_in(segment)])
            for segment in sparse:
                self._segments.remove(segment)

    def _move(self, entries: list[Entry]) -> None:
        extents = self._segments.write(self._segments.read(entry.extent, str(entry)) for entry in entries)
        with self._index.transaction():
            for entry, extent in zip(entries, extents, strict=True):
                self._index.put(entry._replace(extent=extent))


class _SqliteProcess(ProcessState):
    def __init__(self, process_id: str, store: SqliteStore, index: Index, segments: SegmentFolder) -> None:
        self._process_id = process_id
        self._store = store
        self._index = index
        self._segments = segments

    @property
    def signature(self) -> Any:
        return json.loads(self._row().signature)

    @property
    def last_round(self) -> int | None:
        return self._row().round

    @property
    def metadata(self) -> Any:
        return json.loads(self._row().metadata)

    def client_ids(self) -> list[str]:
        return sorted(
            entry.client for entry in self._index.entries(self._process_id) if entry.owner != SERVER
        )

    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        found = {}
        for client in client_ids:
            state = self._read(client_owner(rules.check_text("client id", client)))
            if state is not None:
                found[client] = state
        return found

    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        return self._read(SERVER)

    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        row = self._row()
        number = rules.check_round(self._process_id, row.round, round_num)
        text = rules.to_json("metadata", metadata)
        rules.check_mapping("client_states", "client ids to states", client_states)
        states = {
            client_owner(rules.check_text("client id", client)): state
            for client, state in client_states.items()
        }
        states[SERVER] = server_state
        replaced = {
            entry.extent.segment for owner in states if (entry := self._index.entry(self._process_id, owner))
        }
        try:
            extents = self._segments.write(_encoded(states))
            # Should this transaction fail, the segment stays until the next opening: when the disk fails
            # between writing and confirming, SQLite may yet find the transaction complete after a crash.
            with self._index.transaction():
                for owner, extent in zip(states, extents, strict=True):
                    self._index.put(Entry(self._process_id, owner, number, extent))
                self._index.put_process(row._replace(round=number, metadata=text))
        except StoreError as error:
            held = "no round" if row.round is None else f"round {row.round}"
            raise StoreError(
                f"round {number} of process {self._process_id!r} was not committed: {error}; {held} is intact"
            ) from error
        self._store._collect(replaced)

    def verify(self) -> None:
        for entry in self._index.entries(self._process_id):
            self._segments.read(entry.extent, str(entry))

    def _row(self) -> ProcessRow:
        row = self._index.process(self._process_id)
        assert row is not None, "open_process made it, and nothing deletes it"
        return row

    def _read(self, owner: str) -> dict[str, np.ndarray[Any, Any]] | None:
        entry = self._index.entry(self._process_id, owner)
        return None if entry is None else blob.decode(self._segments.read(entry.extent, str(entry)))


def _encoded(states: Mapping[str, Tensors]) -> Iterator[bytes]:
    for owner, state in states.items():
        yield blob.encode(state, owner)


def _prepare(folder: Path) -> None:
    """Makes the folder of a store, or makes sure that it is one."""
    try:
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is a file; a store is a folder, so name another path")
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (folder / _INDEX).is_file():
            raise StoreError(
                f"{folder} is not a fedplug store: it is not empty and has no {_INDEX}; name a new folder"
            )
        sync_folder(folder.parent)
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error
