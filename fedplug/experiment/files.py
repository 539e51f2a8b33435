"""Atomic replacement of files in an experiment's folder."""

from __future__ import annotations

import os
from pathlib import Path

from fedplug.errors import StoreError

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Replaces the text of a file atomically: after a full disk or a crash it has the old text.

    Raises:
        StoreError: The file cannot be written.
    """
    partial = path.with_suffix(".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
