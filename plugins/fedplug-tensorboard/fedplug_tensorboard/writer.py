"""Writes the scalars of one training by TensorBoard's own writer.

Each call waits until its numbers are in the file. Errors are thus raised where they happen, and a killed
training has lost nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

    from tensorboard.summary.writer.event_file_writer import EventFileWriter

__all__ = ["Writer"]


class Writer:
    """Appends scalars to a folder, which is a run in TensorBoard. The first scalar starts a file.

    Steps may start again: TensorBoard drops the steps of earlier files from a new file's first step on, so a
    round that ran again after an interruption is shown once. `begin_at` does the same.
    """

    def __init__(self, folder: str | Path) -> None:
        """Initializes a writer for ``folder``, which need not exist."""
        self._folder = Path(folder).absolute()
        self._file: EventFileWriter | None = None

    def begin_at(self, step: int) -> None:
        """Starts a file. Earlier values of this step and later ones are dropped.

        Raises:
            OSError: The file cannot be written. If TensorFlow is installed, the error is TensorFlow's.
        """
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.close()
        self._file = EventFileWriter(str(self._folder))
        self._append(step, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes numbers by tag. They are in the file when this returns.

        Raises:
            OSError: See `begin_at`. The next call starts another file, because nothing after an incomplete
                record can be read.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        if not scalars:
            return
        if self._file is None:
            self.begin_at(step)
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(step, summary=Summary(value=values))

    def close(self) -> None:
        """Closes the file. The next `write` starts another."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(Exception):  # all data were already flushed
                file.close()

    def _append(self, step: int, **content: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        assert self._file is not None
        try:
            self._file.add_event(Event(wall_time=time.time(), step=step, **content))
            self._file.flush()
        except Exception:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
