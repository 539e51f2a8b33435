"""The server's side without vLLM: fetches, checks and decodes new versions while the server answers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug
from fedplug.errors import FedplugError, PayloadError
from fedplug_vllm.channel import ChannelReader, Layout, Manifest

__all__ = ["Change", "Piece", "Staging", "Update"]

_log = logging.getLogger("fedplug")

MAX_BYTES = 2.0**40
"""More than any model; the receiver allocates as a message's arrays need."""

Shapes = Mapping[str, tuple[int, ...]]


class Piece(NamedTuple):
    """Rows of an array: the first one, and the shape of the whole array."""

    row: int
    shape: tuple[int, ...]
    rows: NDArray[Any]


class Change(NamedTuple):
    """The changed elements of an array of this shape: flat indices, ascending, and their new values."""

    name: str
    shape: tuple[int, ...]
    indices: NDArray[np.int64]
    values: NDArray[Any]


@dataclass(frozen=True)
class Update:
    """A version that is ready to be applied.

    Attributes:
        number: The number of its step.
        pieces: All arrays, each as the pieces that the trainer's ranks hold, in the order of their rows.
        changes: The changed elements since the applied version. None if no version was applied.
        fetched_bytes: The bytes that were fetched for it.
        seconds: The time to ``"fetch"`` it, to ``"decode"`` and check it, and to ``"compare"`` it with the
            applied version.
    """

    number: int
    pieces: Mapping[str, list[Piece]]
    changes: list[Change] | None
    fetched_bytes: int
    seconds: Mapping[str, float]

    def whole(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yields each array as a whole."""
        for name, pieces in self.pieces.items():
            rows = [piece.rows for piece in pieces]
            yield name, rows[0] if len(rows) == 1 else np.concatenate(rows)


class Staging:
    """Holds the newest version that could be had, in a thread that looks for the next.

    An error of a message is raised by `take`, and logged. It changes nothing: the server goes on with the
    applied version, and a later version may lead on.
    """

    def __init__(
        self, url: str, *, poll_seconds: float, max_bytes: float = MAX_BYTES, expected: Shapes | None = None
    ) -> None:
        """Begins to look for versions.

        Args:
            url: Where the trainer writes.
            poll_seconds: The time between two looks.
            max_bytes: The most memory for the arrays of a version.
            expected: The arrays of the server's model by name. None accepts any.
        """
        self._channel = ChannelReader(url)
        self._poll_seconds, self._max_bytes, self._expected = poll_seconds, max_bytes, expected
        self._receivers: dict[int, fedplug.Receiver] = {}
        self._applied: Mapping[str, list[Piece]] | None = None
        self._done: int | None = None
        self._staged: Update | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fedplug-staging", daemon=True)
        self._thread.start()

    @property
    def staged(self) -> int | None:
        """The number of the step that `take` returns at once. None if there is none."""
        return None if self._staged is None else self._staged.number

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._thread.join()

    def take(self, number: int) -> Update:
        """Returns the version of a step, staged now if it is not yet.

        Raises:
            PayloadError: It is damaged, too large, of another model, or nothing leads to it.
        """
        with self._lock:
            if self._staged is None or self._staged.number != number:
                self._staged = self._stage(number)
            return self._staged

    def applied(self, update: Update | None) -> None:
        """Says which version the server's model has now. None if that is not known."""
        with self._lock:
            self._applied = None if update is None else update.pieces
            self._done = None if update is None else update.number
            self._staged = None

    def _watch(self) -> None:
        tried = None
        while not self._closed.wait(self._poll_seconds):
            try:
                with self._lock:
                    if self._staged is None:
                        manifest = self._channel.manifest(0)
                        number = manifest.steps[-1].number if manifest and manifest.steps else None
                        if number not in (None, self._done, tried):
                            tried = number
                            self._staged = self._stage(number)
            except (FedplugError, OSError) as error:
                _log.warning("a new version of the weights was not staged: %s", error)

    def _stage(self, number: int) -> Update:
        first = self._manifest(0)
        pieces: dict[str, list[Piece]] = {}
        fetched, seconds = 0, dict.fromkeys(("fetch", "decode", "compare"), 0.0)
        for part in range(first.parts):
            manifest = first if part == 0 else self._manifest(part)
            receiver = self._receivers.setdefault(part, fedplug.Receiver(max_bytes=self._max_bytes))
            version, files = manifest.path(receiver.version, number)
            for file in files:
                with _timed(seconds, "fetch"):
                    message = self._channel.read(file, self._max_bytes)
                with _timed(seconds, "decode"):
                    receiver.apply(message)
                fetched += file.bytes
            if receiver.version != version:
                raise PayloadError(
                    f"the messages of part {part} lead to version {receiver.version}, not to step {number}"
                )
            for name, rows in (receiver.model or {}).items():
                row, shape = _place(manifest.layout, name, rows.shape)
                if manifest.layout is None or rows.size:  # the last ranks of many may hold no rows
                    pieces.setdefault(name, []).append(Piece(row, shape, rows))
        pieces = {name: sorted(each, key=lambda piece: piece.row) for name, each in pieces.items()}
        _require_whole(pieces)
        if self._expected is not None:
            _require_expected(pieces, self._expected)
        with _timed(seconds, "compare"):
            changes = None if self._applied is None else _changes(self._applied, pieces)
        return Update(number, pieces, changes, fetched, seconds)

    def _manifest(self, part: int) -> Manifest:
        manifest = self._channel.manifest(part)
        if manifest is None:
            raise PayloadError(f"there is no part-{part}.json yet")
        return manifest


@contextlib.contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] += time.perf_counter() - start


def _place(layout: Layout | None, name: str, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Returns the first row of an array in the whole one, and the shape of the whole one."""
    if layout is None:
        return 0, shape
    if name not in layout:
        raise PayloadError(f"the trainer's list has no place for its array {name!r}")
    return layout[name]


def _require_whole(pieces: Mapping[str, list[Piece]]) -> None:
    """Raises PayloadError unless the pieces of each array are its rows, each once."""
    for name, each in pieces.items():
        row, shape = 0, each[0].shape
        for piece in each:
            if piece.shape != shape or piece.row != row or piece.rows.shape[1:] != shape[1:]:
                raise PayloadError(f"the ranks' parts of array {name!r} do not fit together")
            row += len(piece.rows) if shape else 1
        if shape and row != shape[0]:
            raise PayloadError(f"array {name!r} has {shape[0]} rows, and the ranks sent {row}")


def _require_expected(pieces: Mapping[str, list[Piece]], expected: Shapes) -> None:
    """Raises PayloadError for an array that the server's model does not have, or has in another shape."""
    for name, each in pieces.items():
        if name not in expected:
            raise PayloadError(f"the trainer sends array {name!r}, and the server's model has no such array")
        if each[0].shape != expected[name]:
            raise PayloadError(
                f"the trainer's array {name!r} has shape {list(each[0].shape)}, and the server's model has "
                f"{list(expected[name])}"
            )


def _changes(old: Mapping[str, list[Piece]], new: Mapping[str, list[Piece]]) -> list[Change] | None:
    """Returns the elements with other bits. None if these are not versions of one model."""
    changes = []
    if old.keys() != new.keys():
        return None
    for name, pieces in new.items():
        indices, values = [], []
        if [piece[:2] for piece in pieces] != [piece[:2] for piece in old[name]]:
            return None
        for before, after in zip(old[name], pieces, strict=True):
            if before.rows is after.rows:
                continue
            if before.rows.dtype != after.rows.dtype:
                return None
            (found,) = np.nonzero(_bits(before.rows) != _bits(after.rows))
            row_size = after.rows[:1].size if after.shape else 1
            indices.append(found + after.row * row_size)
            values.append(after.rows.reshape(-1)[found])
        if indices and sum(map(len, indices)):
            changes.append(Change(name, pieces[0].shape, np.concatenate(indices), np.concatenate(values)))
    return changes


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(-1).view(f"u{array.itemsize}")
