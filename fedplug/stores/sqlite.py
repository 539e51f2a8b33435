"""``sqlite:///path``: a store in a folder, safe against crashes, full disks and damaged files.

A commit writes the round as one new segment file and waits until it is on the disk. One SQLite transaction
then makes it valid. `fedplug.stores.recovery` handles their state after a crash or damage. The last
``keep_rounds`` rounds are kept. The transaction that adds a round removes states that no kept round needs.

A store's folder has these files::

    index.sqlite3            the place of each blob (`fedplug.stores.index`)
    segments/NNN.segment     the blobs (`fedplug.stores.segment`), each a safetensors document
    segments.list            the needed segments, for repair (`fedplug.stores.segment`)
    lock                     held while these change (`fedplug.stores.lock`)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fedplug.errors import ConfigError, CorruptStoreError, StoreError
from fedplug.stores import recovery, rules, system
from fedplug.stores.base import Json, StateStore
from fedplug.stores.collector import Collector
from fedplug.stores.index import Index, copy_index
from fedplug.stores.lock import LOCK_FILE, FolderLock
from fedplug.stores.rows import ProcessRow
from fedplug.stores.segment import SegmentFolder, SegmentList
from fedplug.stores.sqlite_process import SqliteProcess
from fedplug.stores.turns import in_turn, refuse_copies

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["INDEX", "SEGMENTS", "SqliteStore", "prepare_folder", "require_store"]

INDEX = "index.sqlite3"
SEGMENTS = "segments"
_PREFIX = "sqlite:///"
_OPTION = "?keep_rounds="


class SqliteStore(StateStore):
    """The default store on disk."""

    name: ClassVar[str] = "sqlite"
    __reduce__ = refuse_copies

    def __init__(
        self,
        path: str | Path,
        keep_rounds: int = 1,
        *,
        read_only: bool = False,
    ) -> None:
        """Opens the store in the folder ``path``, and creates the folder if there is none.

        Args:
            path: The folder.
            keep_rounds: Number of rounds of each process to keep for `SqliteProcess.rewind`. It may differ
                at each opening. The next commit removes rounds beyond it.
            read_only: Whether to change nothing in the folder, which may be on a read-only disk. Commits and
                other changes then raise errors.

        Raises:
            ConfigError: ``keep_rounds`` is not a positive integer.
            StoreError: The path is a file or another kind of folder, or the store is in use, or has a newer
                format.
            CorruptStoreError: The index is damaged, or older than the segments.
        """
        self._path = Path(path).absolute()
        self._keep_rounds = rules.check_keep_rounds(keep_rounds)
        with ExitStack() as undo:
            if read_only:
                self._look(undo)
            else:
                self._open(undo)
            self.turn = self._index.turn
            self._release = undo.pop_all().close

    def _open(self, undo: ExitStack) -> None:
        prepare_folder(self._path)
        self._lock = FolderLock(self._path)
        undo.callback(self._lock.close)
        self._lock.require_sync()
        with self._lock:
            # The segments' folder is created after the index: if it exists, an empty index is a lost one.
            fresh = not (self._path / SEGMENTS).exists()
            if not fresh:
                recovery.require_current(self._path / INDEX, SegmentFolder(self._path / SEGMENTS))
            self._index = Index(self._path / INDEX, create=fresh)
            undo.callback(self._index.close)
            self._segments = SegmentFolder(self._path / SEGMENTS)
            system.sync_folder(self._path)
            self._collector = Collector(self._index, self._segments, SegmentList(self._path))
            self._collector.open()

    def _look(self, undo: ExitStack) -> None:
        """Opens a copy of the index, and the segments in place."""
        require_store(self._path)
        copy = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="fedplug-")))
        try:
            copy_index(self._path / INDEX, copy / INDEX)
        except OSError as error:
            raise StoreError(f"{self._path / INDEX} cannot be read: {error.strerror}") from error
        self._lock = FolderLock(copy)
        undo.callback(self._lock.close)
        self._index = Index(copy / INDEX, create=False, named=self._path / INDEX)
        undo.callback(self._index.close)
        self._segments = SegmentFolder(self._path / SEGMENTS)
        self._collector = Collector(self._index, self._segments, SegmentList(self._path))
        recovery.recover(self._index, self._segments)
        self._index.forbid_writing()

    def __repr__(self) -> str:
        return f"<sqlite store at {self._path}>"

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``sqlite:///relative/path`` or ``sqlite:////absolute/path``. The path is not decoded.

        The URL may end with ``?keep_rounds=N``. Any other question mark is part of the path.
        """
        return cls(*_arguments(url))

    @classmethod
    def look_into(cls, url: str) -> Self:
        """Opens an existing store, read-only if the folder is not writable.

        Raises:
            ConfigError: The URL does not have the form that `from_url` accepts.
            StoreError: There is no store in the folder, or it cannot be opened.
        """
        path, keep_rounds = _arguments(url)
        require_store(Path(path))
        return cls(path, keep_rounds, read_only=not os.access(path, os.W_OK))

    def get_config(self) -> dict[str, Json]:
        """Returns the path and the number of kept rounds."""
        return {"path": str(self._path), "keep_rounds": self._keep_rounds}

    @in_turn
    def open_process(self, process_id: str, signature: Mapping[str, object] | None = None) -> SqliteProcess:
        row = self._index.process(rules.check_text("process id", process_id))
        if row is None and signature is None:
            raise rules.no_such_process(str(self._path), process_id, self.processes())
        if row is None:
            with self._lock, self._index.transaction():
                self._index.put_process(
                    ProcessRow(process_id, rules.to_json("signature", signature), None, "null")
                )
        elif signature is not None:
            rules.check_signature(str(self._path), process_id, row.signature, signature)
        return SqliteProcess(
            process_id, self._index, self._segments, self._lock, self._collector, self._keep_rounds
        )

    @in_turn
    def processes(self) -> list[str]:
        return self._index.processes()

    def close(self) -> None:
        if self.turn.is_of_parent():
            self._release()
        else:
            self._close()

    @in_turn
    def _close(self) -> None:
        with suppress(StoreError), self._lock:  # closing moves SQLite's log into the index
            self._index.close()
        self._release()


def require_store(folder: Path) -> None:
    """Raises `StoreError` if a folder is missing or empty. It may hold a damaged store."""
    if not folder.is_dir() or not any(folder.iterdir()):
        raise StoreError(f"there is no store in {folder}; name its folder, for example runs/digits/state")


def _arguments(url: str) -> tuple[str, int]:
    """Splits a URL into the path and the number of rounds to keep."""
    place, separator, count = url.rpartition(_OPTION)
    path = rules.folder_of(place if separator else url, _PREFIX)
    if separator and not (count.isascii() and count.isdigit()):
        raise ConfigError(f"{url!r}: keep_rounds must be a number, as in {_OPTION}5")
    return path, int(count) if separator else 1


def prepare_folder(folder: Path) -> None:
    """Creates the folder of a store, or checks that an existing one is a store."""
    try:
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is a file; a store is a folder, so name another path")
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()} - {LOCK_FILE}
        if SEGMENTS in names and not (folder / INDEX).is_file():
            raise CorruptStoreError(
                f"{folder} has segments but no {INDEX}; run `fedplug store repair {folder}`, or restore the "
                "store from a copy"
            )
        if names and not (folder / INDEX).is_file():
            raise StoreError(
                f"{folder} is not a fedplug store: it is not empty and has no {INDEX}; name a new folder"
            )
    except OSError as error:
        raise StoreError(f"{folder} cannot be used as a store: {error.strerror}") from error
