"""``fedplug store copy STORE TARGET``: copies a store consistently, to any kind, even while it is in use."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import FOLDER, add_store, open_to_read
from fedplug.cli.terminal import printable

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "copy", help="copy the last round, even while a training uses the store", parents=[common]
    )
    add_store(parser, "it may be in use, unless a folder is copied to a URL")
    parser.add_argument(
        "target", metavar="TARGET", help="a new folder for the copy, or the URL of a new store"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.stores import open_store
    from fedplug.stores.copying import copy_store
    from fedplug.stores.transfer import transfer, transfer_to_folder

    source, target = (name.removeprefix(FOLDER) for name in (arguments.store, arguments.target))
    if "://" in target:
        with open_to_read(source) as store, open_store(target) as copy:
            transfer(store, copy)
    elif "://" in source:
        with open_to_read(source) as store:
            transfer_to_folder(store, target)
    else:
        copy_store(source, target)
    print(printable(f"copied {arguments.store} to {arguments.target}"))
    return 0
