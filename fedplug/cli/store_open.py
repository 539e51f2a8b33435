"""What the commands for stores share: the argument that says which, and opening it without making one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedplug.errors import StoreError

if TYPE_CHECKING:
    from fedplug.stores import StateStore

__all__ = ["add_store", "open_existing"]

_FOLDER = "sqlite:///"


def add_store(parser: argparse.ArgumentParser) -> None:
    """Adds the argument."""
    parser.add_argument(
        "store",
        metavar="STORE",
        help="its folder, for instance runs/digits/state, or its URL; it must not be in use",
    )


def open_existing(where: str) -> StateStore:
    """Opens the store in a folder, or that of a URL.

    Raises:
        StoreError: There is none in the folder, or it cannot be opened.
        UnknownNameError: The URL is of no store that is installed.
    """
    from fedplug.stores import open_store

    name = where.removeprefix(_FOLDER)
    if "://" in name:
        return open_store(where)
    folder = Path(name)
    # Opening would make one: a mistyped folder is not to become a store.
    if not folder.is_dir() or not any(folder.iterdir()):
        raise StoreError(f"there is no store in {folder}; name its folder, for instance runs/digits/state")
    return open_store(f"{_FOLDER}{folder}")
