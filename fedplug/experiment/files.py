"""Files of an experiment's folder that hold the old text or the new one, whatever happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from fedplug.errors import StoreError

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Replaces the file's text; a full disk or a kill in between leaves the old one.

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
