"""Copies a store on disk while another process has it open and continues to commit, and stores of any kind.

Segments never change, so most are copied without a lock. Then the copy takes the lock that commits need.
It copies the index as a crash would leave it, and opens the few segments that are new. Open files remain
readable after deletion. The store's user therefore waits only for the copy of the index. Opening the copy
runs crash recovery, which takes it to the last committed round.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores import system
from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.stores.files import whole_folder
from fedplug.stores.forks import Connection
from fedplug.stores.index import copy_index
from fedplug.stores.lock import FolderLock
from fedplug.stores.segment import SegmentFolder
from fedplug.stores.sqlite import INDEX, SEGMENTS, SqliteStore

__all__ = ["copy_store", "snapshot", "transfer", "transfer_to_folder"]

_FEW = 100  # segments to hold open at once; systems allow 1024 files
_Identity = tuple[int, int, int]


def copy_store(source: str | Path, target: str | Path) -> None:
    """Copies the last committed round and the kept rounds before it to a new folder on any disk.

    The folder ``target`` appears when the copy is complete and on the disk.

    Args:
        source: The folder of a store, open or not, in this process or another.
        target: A folder that does not exist.

    Raises:
        StoreError: There is no store in ``source``. ``target`` exists, or a disk operation fails.
        CorruptStoreError: The index is damaged. Damaged segments are copied unchanged, and `fedplug store
            verify` reports them in the copy, too.
    """
    source, target = Path(source), Path(target)
    _require_store(source)
    if os.path.lexists(target):
        raise StoreError(f"{target} already exists; name a new folder for the copy")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(target) as part:
            _copy_to(source, part)
    except OSError as error:
        raise StoreError(f"{source} cannot be copied to {target}: {error}") from error


def _copy_to(source: Path, part: Path) -> None:
    (part / SEGMENTS).mkdir()
    copied: dict[str, _Identity] = {}
    while _copy_segments(source, part, copied) > _FEW:
        pass
    with ExitStack() as files:
        with _quiet(source):
            copy_index(source / INDEX, part / INDEX)
            late = {name: files.enter_context(file) for name, file in _open_late(source, copied)}
            there = {path.name for path in (source / SEGMENTS).iterdir()}
        for name, file in late.items():
            _write(file, part / SEGMENTS / name)
    for gone in copied.keys() - there:
        (part / SEGMENTS / gone).unlink()
    system.sync_folder(part / SEGMENTS)
    try:
        SqliteStore(part).close()  # recovers to the last round and deletes unneeded segments
    except CorruptStoreError as error:
        raise CorruptStoreError(f"{source} cannot be copied: its copy is damaged: {error}") from error


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
    folder = Path(folder)
    if os.path.lexists(folder):
        raise StoreError(f"{folder} already exists; name a new folder for the copy")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as part, SqliteStore(part) as target:
            transfer(source, target)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}") from error


@contextmanager
def snapshot(source: str | Path) -> Iterator[SqliteStore]:
    """Opens the last round of a store that may be open elsewhere. The index only, without the states.

    Raises:
        StoreError: There is no store, or it cannot be read. See `copy_store`.
    """
    with tempfile.TemporaryDirectory(prefix="fedplug-") as name:
        _require_store(Path(source))
        with _quiet(Path(source)):
            copy_index(Path(source) / INDEX, Path(name) / INDEX)
        (Path(name) / SEGMENTS).mkdir()
        with SqliteStore(name) as store:
            yield store


@contextmanager
def _quiet(source: Path) -> Iterator[None]:
    """Keeps other processes from changing the index or deleting segments within the block."""
    if not os.access(source, os.W_OK):  # on a read-only disk nothing changes
        yield
        return
    lock, own = FolderLock(source), Connection.opened_here(source / INDEX)
    with closing(lock), ExitStack() as turn:
        if own is not None:  # a thread that commits takes its turn first and then the lock, too
            turn.enter_context(own.turn.lock)
        with lock:
            yield


def _require_store(source: Path) -> None:
    if not (source / INDEX).is_file():
        raise StoreError(f"there is no store in {source}; name its folder, for example runs/digits/state")


def _copy_segments(source: Path, target: Path, copied: dict[str, _Identity]) -> int:
    """Copies the segments that are not in ``copied``, adds them to it and returns their number."""
    before = len(copied)
    folder = SegmentFolder(source / SEGMENTS)
    for segment in folder.ids():
        path = folder.path(segment)
        if path.name in copied:
            continue
        try:
            with path.open("rb") as file:
                copied[path.name] = _identity(file)
                _write(file, target / SEGMENTS / path.name)
        except FileNotFoundError:
            continue  # deleted since it was listed, so no round needs it
    return len(copied) - before


def _open_late(source: Path, copied: dict[str, _Identity]) -> Iterator[tuple[str, BinaryIO]]:
    """Yields open files of the segments that are new or changed since they were copied."""
    folder = SegmentFolder(source / SEGMENTS)
    for segment in folder.ids():
        path = folder.path(segment)
        file = path.open("rb")
        if copied.get(path.name) == _identity(file):
            file.close()
        else:
            yield path.name, file


def _identity(file: BinaryIO) -> _Identity:
    """Identifies a file's content: after a crash, a segment number may be used again."""
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_mtime_ns, status.st_size


def _write(source: BinaryIO, target: Path) -> None:
    with target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


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
