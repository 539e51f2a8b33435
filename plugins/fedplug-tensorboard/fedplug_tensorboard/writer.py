"""Scalars of one training in TensorBoard's event files.

Written at once, and not by the thread of TensorBoard's own writer: an error is raised where it happens, and a
training that is killed has lost nothing.
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
    """Appends scalars to a folder, which is a run in TensorBoard; its files are begun with the first of them.

    Steps may begin again: TensorBoard forgets those from the first step of a new file on, so a round that was
    run again after an interruption is shown once. The same where a writer is told to `begin_at` a step.
    """

    def __init__(self, folder: str | Path) -> None:
        """For ``folder``, which need not exist."""
        self._folder = Path(folder)
        self._file: BinaryIO | None = None

    def begin_at(self, step: int) -> None:
        """Begins a file: what was written before for this step and later ones is forgotten.

        Raises:
            OSError: It cannot be written.
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
        """Adds numbers by tag; they are in the file when this returns.

        Raises:
            OSError: They cannot be written. The next call begins another file, as what follows a torn record
                cannot be read.
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
        """Closes the file; the next `write` begins another."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # there is nothing left to be written
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
