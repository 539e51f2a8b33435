"""``fedplug store repair STORE``: recovers as much as possible of a damaged store, and lists the losses."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import FOLDER, add_store
from fedplug.cli.terminal import printable
from fedplug.errors import StoreError

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "repair", help="rebuild a damaged index, and list what is lost", parents=[common]
    )
    add_store(parser)
    parser.add_argument(
        "--drop-damaged", action="store_true", help="drop damaged states; their clients start afresh"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.stores.repair import repair_store

    folder = arguments.store.removeprefix(FOLDER)
    if "://" in folder:
        raise StoreError(
            f"{folder}: only a store in a folder can be repaired; database servers have tools of their own"
        )
    report = repair_store(folder, drop_damaged=arguments.drop_damaged)
    for line in report.done:
        print(f"done  {printable(line)}")
    for line in report.lost:
        print(f"lost  {printable(line)}")
    if not report.done and not report.lost:
        print("ok    no damage")
    return EXIT_FAILED if report.lost else 0
