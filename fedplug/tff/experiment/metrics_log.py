"""The metrics log: JSON lines, one per run, seed and round, consistent with the store after interruptions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedplug.errors import StoreError
from fedplug.stores.files import write_whole

__all__ = ["MetricsLog"]


class MetricsLog:
    """An append-only file of rows ``{"run": ..., "seed": ..., "round": ..., ...}``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, run: str, seed: int) -> list[dict[str, Any]]:
        """Returns the rows of a run with a seed, by round."""
        return [row for row in self._read() if (row["run"], row["seed"]) == (run, seed)]

    def append(self, row: dict[str, Any]) -> None:
        """Appends a row durably.

        Raises:
            StoreError: The file cannot be written.
        """
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error

    def keep_up_to(self, last_round: dict[tuple[str, int], int]) -> None:
        """Drops incomplete lines, and rows of rounds that the store does not hold.

        Args:
            last_round: The store's last round by run and seed. Rows of other runs are kept.

        Raises:
            StoreError: The file cannot be written.
        """
        kept = [
            row
            for row in self._read()
            if row["round"] <= last_round.get((row["run"], row["seed"]), row["round"])
        ]
        write_whole(self._path, "".join(json.dumps(row) + "\n" for row in kept))

    def _read(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return  # an interruption truncated the last line; its round is in the store or runs again
