"""The server's side without vLLM: fetches, checks and decodes new versions while the server answers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug.errors import PayloadError
from fedplug_vllm.channel import ChannelReader, Manifest, Step

__all__ = ["Change", "Piece", "Staging", "Update", "as_tensor"]

_log = logging.getLogger("fedplug")

MAX_BYTES = 2.0**40
"""More than any model; the receiver allocates as a message's arrays need."""

MAX_WAIT_SECONDS = 60.0
"""The longest time between two looks, each of which failed."""

WIDE = ("float64", "float32", "float16", "bfloat16")
"""Dtypes that vLLM's loaders convert into each other. A value of 8 bits has a scale beside it."""

Forms = Mapping[str, tuple[str, tuple[int, ...]]]
"""The dtype and shape of arrays by name."""


class Piece(NamedTuple):
    """Rows of an array: the first one, and the shape of the whole array."""

    row: int
    shape: tuple[int, ...]
    rows: NDArray[np.generic]


class Change(NamedTuple):
    """The changed elements of an array of this shape: flat indices, ascending, and their new values."""

    name: str
    shape: tuple[int, ...]
    indices: NDArray[np.int64]
    values: NDArray[np.generic]


@dataclass(frozen=True)
class Update:
    """A version that is ready to be applied: as whole arrays, or as changed elements.

    Attributes:
        number: The number of its step.
        arrays: All arrays by name. None if the changes suffice.
        changes: The changed elements since the applied version. None if the arrays are needed.
        pieces: All arrays as the trainer's ranks hold them, with which the next version is compared.
        fetched_bytes: The bytes that were fetched for it.
        seconds: The time to ``"fetch"`` it, to ``"decode"`` and check it, and to ``"prepare"`` it, which
            finds the changed elements, or joins the rows of several ranks.
    """

    number: int
    arrays: Mapping[str, NDArray[np.generic]] | None
    changes: list[Change] | None
    pieces: Mapping[str, list[Piece]]
    fetched_bytes: int
    seconds: Mapping[str, float]


class Staging:
    """Holds the newest version that could be had, in a thread that looks for the next.

    An error of a message is raised by `take`, and logged. It changes nothing: the server goes on with the
    applied version, and the thread tries again, after longer and longer times.
    """

    def __init__(
        self,
        url: str,
        *,
        poll_seconds: float,
        max_bytes: float = MAX_BYTES,
        expected: Forms | None = None,
        patches: bool = False,
    ) -> None:
        """Begins to look for versions.

        Args:
            url: Where the trainer writes.
            poll_seconds: The time between two looks.
            max_bytes: The most memory for the arrays of a version.
            expected: The arrays of the server's model. None accepts any.
            patches: Whether changed elements suffice, of floating-point weights without a NaN, which marks
                unchanged elements in vLLM.
        """
        self._channel = ChannelReader(url)
        self._poll_seconds, self._max_bytes = poll_seconds, max_bytes
        self._expected, self._patches = expected, patches
        self._receivers: dict[int, fedplug.Receiver] = {}
        self._applied: Mapping[str, list[Piece]] | None = None
        self._staged: Update | None = None
        self._last: Step | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fedplug-staging", daemon=True)
        self._thread.start()

    @property
    def staged(self) -> Update | None:
        """The version that `take` returns at once. None if there is none."""
        return self._staged

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
            if self._staged is not update:  # the thread has staged a version since, for the model before
                self._last = None
            self._applied = update.pieces if update is not None and self._patches else None
            self._staged = None

    def _watch(self) -> None:
        wait = self._poll_seconds
        while not self._closed.wait(wait):
            try:
                with self._lock:
                    self._look()
                wait = self._poll_seconds
            except Exception as error:  # file systems raise errors of their own, and the thread has to live
                wait = max(self._poll_seconds, min(2 * wait, MAX_WAIT_SECONDS))
                _log.warning("new weights were not staged: %s: %s", type(error).__name__, error)

    def _look(self) -> None:
        """Stages the newest step that all ranks have written, unless it was staged before."""
        first = self._channel.manifest(0)
        others = [] if first is None else [self._channel.manifest(part) for part in range(1, first.parts)]
        number = min(0 if manifest is None else manifest.last for manifest in (first, *others))
        if first is not None and number > 0 and first.step(number) != self._last:
            self._staged = self._stage(number)

    def _stage(self, number: int) -> Update:
        first = self._manifest(0)
        pieces: dict[str, list[Piece]] = {}
        fetched, seconds = 0, dict.fromkeys(("fetch", "decode", "prepare"), 0.0)
        for part in range(first.parts):
            manifest = first if part == 0 else self._manifest(part)
            receiver = self._receivers.setdefault(part, fedplug.Receiver(max_bytes=self._max_bytes))
            step = manifest.step(number)
            for file in manifest.path(receiver.version, step):
                with _timed(seconds, "fetch"):
                    message = self._channel.read(file, self._max_bytes)
                with _timed(seconds, "decode"):
                    receiver.apply(message)
                fetched += file.bytes
            if receiver.version != step.version:
                raise PayloadError(
                    f"the messages of part {part} lead to version {receiver.version}, not to step {number}"
                )
            for name, rows in (receiver.model or {}).items():
                row, shape = (manifest.layout or {}).get(name, (0, rows.shape))
                if row == 0 or len(rows):  # the last ranks of many may hold no rows
                    pieces.setdefault(name, []).append(Piece(row, shape, rows))
        pieces = {name: sorted(each, key=lambda piece: piece.row) for name, each in pieces.items()}
        _require_whole(pieces)
        if self._expected is not None:
            _require_expected(pieces, self._expected)
        with _timed(seconds, "prepare"):
            changes = _changes(self._applied, pieces) if self._patches and self._applied else None
            arrays = {name: _joined(each) for name, each in pieces.items()} if changes is None else None
        self._last = first.step(number)
        return Update(number, arrays, changes, pieces, fetched, seconds)

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


def _require_whole(pieces: Mapping[str, list[Piece]]) -> None:
    """Raises PayloadError unless the pieces of each array are its rows, each once."""
    for name, each in pieces.items():
        row, shape, dtype = 0, each[0].shape, each[0].rows.dtype
        for piece in each:
            expected = (row, shape, dtype, len(shape), shape[1:])
            if (*piece[:2], piece.rows.dtype, piece.rows.ndim, piece.rows.shape[1:]) != expected:
                raise PayloadError(f"the ranks' parts of array {name!r} do not fit together")
            row += len(piece.rows) if shape else 1
        if shape and row != shape[0]:
            raise PayloadError(f"array {name!r} has {shape[0]} rows, and the ranks sent {row}")


def _require_expected(pieces: Mapping[str, list[Piece]], expected: Forms) -> None:
    """Raises PayloadError for an array that the server's model lacks, or has in another shape or dtype."""
    for name, each in pieces.items():
        if name not in expected:
            raise PayloadError(f"the trainer sends array {name!r}, and the server's model has no such array")
        dtype, shape = expected[name]
        sent = each[0].rows.dtype.name
        if each[0].shape != shape or (sent != dtype and not (sent in WIDE and dtype in WIDE)):
            raise PayloadError(
                f"the trainer's array {name!r} is {sent}{list(each[0].shape)}, and the server's model has "
                f"{dtype}{list(shape)}"
            )


def _joined(pieces: list[Piece]) -> NDArray[np.generic]:
    return pieces[0].rows if len(pieces) == 1 else np.concatenate([piece.rows for piece in pieces])


def _changes(old: Mapping[str, list[Piece]], new: Mapping[str, list[Piece]]) -> list[Change] | None:
    """Returns the elements with other bits. None if they cannot be patched."""
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
            change = Change(name, pieces[0].shape, np.concatenate(indices), np.concatenate(values))
            if change.values.dtype.name not in WIDE or torch.isnan(as_tensor(change.values)).any():
                return None
            changes.append(change)
    return changes


def _bits(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return array.reshape(-1).view(f"u{array.itemsize}")


def as_tensor(array: NDArray[np.generic]) -> torch.Tensor:
    """Returns a tensor of the same bits on the same memory, also read-only memory. Do not write to it.

    The function of fedplug-torch copies read-only arrays.
    """
    bits = array.view(f"u{array.itemsize}")
    memory = {**bits.__array_interface__, "data": (bits.ctypes.data, False)}  # PyTorch warns of read-only
    shared = np.asarray(SimpleNamespace(__array_interface__=memory, keeps=array))
    return torch.from_numpy(shared).view(getattr(torch, array.dtype.name))
