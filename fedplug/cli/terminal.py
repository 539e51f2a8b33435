"""Safe text and tables for a terminal, and standard streams that are closed, full, or of another encoding."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

__all__ = ["discard_output", "finish", "prepare", "printable", "table"]


def printable(text: str) -> str:
    """Escapes control and formatting characters, which a terminal would obey: names may be untrusted."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats left-aligned columns, two spaces apart, without trailing blanks. Escapes control characters."""
    lines = [list(map(printable, line)) for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def prepare() -> None:
    """Makes standard streams usable that are closed, or whose encoding lacks a character."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # a file that is opened later would get this number, and with it all that is printed
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Flushes standard output. If that fails, discards the rest, so that Python does not report it again."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()


def discard_output() -> None:
    """Discards all further text on standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
