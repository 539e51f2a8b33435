"""Writes the scalars of one training to TensorBoard's event files.

Writing is synchronous, unlike in TensorBoard's own writer: errors are raised where they happen, and a killed
training has lost nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Writer"]

_numbers = itertools.count()


class Writer:
    """Appends scalars to a folder, which is a run in TensorBoard; the first scalar starts a file.

    Steps may start again: TensorBoard drops the steps of earlier files from a new file's first step on, so a
    round that ran again after an interruption is shown once. `begin_at` does the same.
    """

    def __init__(self, folder: str | Path) -> None:
        """Initializes a writer for ``folder``, which need not exist."""
        self._folder = Path(folder).absolute()
        self._file: BinaryIO | None = None

    def begin_at(self, step: int) -> None:
        """Starts a file; earlier values of this step and later ones are dropped.

        Raises:
            OSError: The file cannot be written.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time():.6f}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = (self._folder / f"events.out.tfevents.{name}").open("wb")
        self._append(Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._append(Event(wall_time=time.time(), step=step, session_log=start))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes numbers by tag; they are in the file when this returns.

        Raises:
            OSError: The numbers cannot be written. The next call starts another file, because nothing after
                an incomplete record can be read.
        """
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if not scalars:
            return
        if self._file is None:
            self.begin_at(step)
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Closes the file; the next `write` starts another."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # all data were already flushed
                self._file.close()
            self._file = None

    def _append(self, event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        assert self._file is not None
        try:
            RecordWriter(self._file).write(event.SerializeToString())
            self._file.flush()
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
