"""Copies a folder as a kill would leave it while a function runs, and flips bits in files."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

__all__ = ["find", "flip", "images"]


def images(folder: Path, target: Path, action: Callable[[], object]) -> list[Path]:
    """Runs a function and copies a folder after every call of a built-in that changed its files.

    The copies are the files after a kill at that moment: content that Python still buffers is missing.

    Args:
        folder: The folder.
        target: A new folder, for the copies.
        action: The function. Changes by other threads are noticed late.

    Returns:
        The copies, at least one if there are files. The last one shows the end.
    """
    taken: list[Path] = []
    seen = _files(folder)

    def look(frame: FrameType, event: str, argument: object) -> None:
        del frame, argument
        nonlocal seen
        if event in ("c_return", "c_exception") and (now := _files(folder)) != seen:
            seen = now
            take()

    def take() -> None:
        taken.append(target / str(len(taken)))
        shutil.copytree(folder, taken[-1])

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(before)
    if seen:
        take()
    return taken


def find(folder: Path, content: bytes) -> Iterator[tuple[Path, int]]:
    """Yields the files of a folder that contain the bytes, with the first offset of each."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (position := path.read_bytes().find(content)) >= 0:
            yield path.relative_to(folder), position


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Flips a bit of a byte of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def _files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Returns a key for the files of a folder and their contents."""
    found = {}
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            found[str(path)] = status.st_ino, status.st_size, status.st_mtime_ns
    return found
