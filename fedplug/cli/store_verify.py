"""``fedplug store verify STORE``: reads all that a store keeps and checks it."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import add_store, open_to_read
from fedplug.errors import StoreError

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("verify", help="read all of it and verify the checksums", parents=[common])
    add_store(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    failed = 0
    with open_to_read(arguments.store) as store:
        for name in store.processes():
            # Printed one by one: a large store takes a while.
            try:
                store.open_process(name).verify()
            except StoreError as error:
                failed += 1
                print(f"fail  {error}", flush=True)
            else:
                print(f"ok    process {name!r}", flush=True)
    return EXIT_FAILED if failed else 0
