"""``fedplug store copy STORE TARGET``: a consistent copy of a store, also of one that is in use."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import FOLDER, add_store

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "copy", help="copy its last round, also while a training goes on in it", parents=[common]
    )
    add_store(parser, "it may be in use")
    parser.add_argument("target", metavar="TARGET", help="a new folder for the copy")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.stores.copying import copy_store

    copy_store(arguments.store.removeprefix(FOLDER), arguments.target.removeprefix(FOLDER))
    print(f"copied {arguments.store} to {arguments.target}")
    return 0
