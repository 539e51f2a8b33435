"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from fedplug.cli.terminal import printable

__all__ = ["render"]


def render(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats left-aligned columns, two spaces apart, without trailing blanks; escapes control characters."""
    lines = [list(map(printable, line)) for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
