"""Shared parts of the commands for stores: the STORE argument, and opening a store without creating one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedplug.errors import StoreInUseError

if TYPE_CHECKING:
    from fedplug.stores import StateStore

__all__ = ["FOLDER", "add_store", "look_into", "open_existing", "open_to_read"]

FOLDER = "sqlite:///"


def add_store(parser: argparse.ArgumentParser, use: str = "it must not be in use") -> None:
    """Adds the STORE argument. ``use`` says whether the store may be open elsewhere."""
    parser.add_argument(
        "store",
        metavar="STORE",
        help=f"the store's folder, for example runs/digits/state, or its URL; {use}",
    )


def open_existing(where: str) -> StateStore:
    """Opens the store in a folder or at a URL.

    Raises:
        StoreError: There is no store in the folder, or it cannot be opened.
        UnknownNameError: The URL names a store that is not installed.
    """
    from fedplug.stores import open_store
    from fedplug.stores.sqlite import require_store

    name = where.removeprefix(FOLDER)
    if "://" in name:
        return open_store(where)
    require_store(Path(name))  # opening a mistyped folder would create a store
    return open_store(f"{FOLDER}{name}")


def open_to_read(where: str) -> StateStore:
    """Opens a store to read states, also on a read-only disk; a folder must not be in use.

    Raises:
        StoreError: The store cannot be opened. See `open_existing`.
        UnknownNameError: The URL names a store that is not installed.
    """
    from fedplug.stores import look_into

    name = where.removeprefix(FOLDER)
    return look_into(where if "://" in name else f"{FOLDER}{name}")


@contextmanager
def look_into(where: str) -> Iterator[StateStore]:
    """Opens a store to list processes and clients, even while it is open elsewhere.

    Raises:
        StoreError: The store cannot be opened. See `open_existing`.
    """
    from fedplug.stores.copying import snapshot

    try:
        opened = open_to_read(where)
    except StoreInUseError:
        with snapshot(where.removeprefix(FOLDER)) as store:
            yield store
    else:
        with opened:
            yield opened
