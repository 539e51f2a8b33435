"""``fedplug store repair STORE``: brings back what can be of a damaged store, and lists what cannot."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import FOLDER, add_store
from fedplug.errors import StoreError

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "repair", help="make a damaged index anew, and list what is lost", parents=[common]
    )
    add_store(parser)
    parser.add_argument(
        "--drop-damaged", action="store_true", help="drop damaged states: clients begin anew, kept rounds go"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.stores.repair import repair_store

    folder = arguments.store.removeprefix(FOLDER)
    if "://" in folder:
        raise StoreError(
            f"{folder}: only a store in a folder can be repaired; of one on many machines the folders "
            "'index' and 'shards/NAME/states' are such, each where it is; a server has tools of its own"
        )
    report = repair_store(folder, drop_damaged=arguments.drop_damaged)
    for line in report.done:
        print(f"done  {line}")
    for line in report.lost:
        print(f"lost  {line}")
    if not report.done and not report.lost:
        print("ok    nothing is damaged")
    return EXIT_FAILED if report.lost else 0
