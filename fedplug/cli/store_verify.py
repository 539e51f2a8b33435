"""``fedplug store verify STORE``: reads all data of a store and checks it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fedplug.cli.store_open import add_store, open_to_read
from fedplug.cli.terminal import printable
from fedplug.errors import StoreError

if TYPE_CHECKING:
    from fedplug.stores import StateStore

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("verify", help="read everything and verify the checksums", parents=[common])
    add_store(parser)
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    found: set[str] = set()
    with open_to_read(arguments.store) as store:
        for name in store.processes():
            is_damaged = False
            for damage in _damage(store, name):
                is_damaged = True
                if damage not in found:  # processes share an index and its damage
                    found.add(damage)
                    print(f"fail  {printable(damage)}", flush=True)  # at once: a large store takes a while
            if not is_damaged:
                print(f"ok    process {name!r}", flush=True)
    return EXIT_FAILED if found else 0


def _damage(store: StateStore, name: str) -> Iterator[str]:
    try:
        yield from store.open_process(name).damage()
    except StoreError as error:
        yield str(error)
