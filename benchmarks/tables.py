"""Tables in Markdown of the programs beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(expression: str) -> str:
    """Returns an expression as code in a cell."""
    return f"`{expression}`".replace("|", "\\|")


def table(rows: Iterable[Sequence[str]], texts: Sequence[int] = (0,)) -> str:
    """Formats rows, of which the first is the head, and prints each as it comes.

    Args:
        rows: The cells.
        texts: The columns of text. The others are numbers, which are aligned right.
    """
    lines = []
    for row in rows:
        lines.append(f"| {' | '.join(row)} |\n")
        print(lines[-1], end="", flush=True)
        if len(lines) == 1:
            sides = ["---" if column in texts else "---:" for column in range(len(row))]
            lines.append(f"| {' | '.join(sides)} |\n")
    return "".join(lines)
