"""``fedplug store rewind STORE ROUND``: rolls a process back to an earlier kept round."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import add_store, open_existing
from fedplug.errors import StoreError

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "rewind", help="roll back to an earlier round kept by keep_rounds=", parents=[common]
    )
    add_store(parser)
    parser.add_argument("round", metavar="ROUND", type=int, help="the round to return to")
    parser.add_argument("--process", metavar="ID", help="the process; optional if there is only one")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    with open_existing(arguments.store) as store:
        known = store.processes()
        if arguments.process is None and len(known) != 1:
            raise StoreError(f"{arguments.store} has {len(known)} processes; name one with --process")
        name = known[0] if arguments.process is None else arguments.process
        process = store.open_process(name)
        before = process.last_round
        process.rewind(arguments.round)
    print(f"process {name!r} is rolled back from round {before} to round {arguments.round}")
    return 0
