"""One line on a terminal that shows which part of a long command is done."""

from __future__ import annotations

import shutil
import sys

from fedplug.cli.terminal import printable

__all__ = ["ProgressLine"]


class ProgressLine:
    """Rewrites a line of standard error. Nothing is written to anything but a terminal."""

    def __init__(self) -> None:
        self._done = 0

    def __enter__(self) -> ProgressLine:
        return self

    def show(self, name: str) -> None:
        """Counts one more part, and shows the count and the name."""
        self._done += 1
        self._write(printable(f"{self._done} {name}"))

    def __exit__(self, *unused: object) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
