"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["render"]


def render(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats left-aligned columns, two spaces apart, without trailing blanks."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
