"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fedplug.errors import ArgumentError
from fedplug.stores.segment import sync_folder

__all__ = ["whole_file", "whole_folder", "written_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file that replaces ``path`` once it is complete on the disk, and never after an error.

    Raises:
        OSError: The file cannot be written.
    """
    partial = _partial(path)
    try:
        with written_file(partial) as file:
            yield file
        partial.replace(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Makes a folder that is renamed to ``path`` once it is complete; after an error it is removed.

    Raises:
        ArgumentError: There is something at ``path``.
        OSError: The folder cannot be written.
    """
    if path.exists():
        raise ArgumentError(f"{path} exists, and a checkpoint of several files needs a new folder")
    partial = _partial(path)
    try:
        partial.mkdir()
        yield partial
        sync_folder(partial)
        partial.rename(path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def written_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file, and waits at the end until its contents are on the disk."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.partial")
