"""Metrics as JSON lines, one per run, seed and round, that agree with the store after any interruption."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedplug.errors import StoreError
from fedplug.experiment.files import write_whole

__all__ = ["MetricsLog"]


class MetricsLog:
    """An append-only file of rows ``{"run": ..., "seed": ..., "round": ..., ...}``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, run: str, seed: int) -> list[dict[str, Any]]:
        """The rows of a run with a seed, by round."""
        return [row for row in self._read() if (row["run"], row["seed"]) == (run, seed)]

    def append(self, row: dict[str, Any]) -> None:
        """Adds a row; it is on disk when this returns.

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
        """Drops torn lines, and the rows of rounds that the store does not hold.

        Args:
            last_round: That of the store, by run and seed; the rows of others are kept.

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
                return  # an interruption tore the last line; its round is either in the store or run again
