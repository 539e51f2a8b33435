"""Atomic replacement of files in an experiment's folder."""

from __future__ import annotations

from pathlib import Path

from fedplug.errors import StoreError
from fedplug.stores.files import whole_file

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Replaces the text of a file atomically: after a full disk or a crash it has the old text.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
