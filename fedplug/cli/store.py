"""``fedplug store show | verify | copy | rewind STORE``: inspects and copies a store."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedplug.cli.arguments import Commands, Parser
from fedplug.cli.terminal import printable, table
from fedplug.errors import CorruptStoreError, StoreError

if TYPE_CHECKING:
    from fedplug.stores import ProcessState, StateStore

__all__ = ["add_parser"]

_EXIT_FAILED = 1
_FOLDER = "sqlite:///"


def add_parser(commands: Commands) -> None:
    """Adds the command and its actions."""
    actions = commands.group("store", "inspect and copy a client-state store")

    def action(
        command: Callable[[argparse.Namespace], int], help: str, use: str = "it may be in use"
    ) -> Parser:
        added = actions.add(command.__name__.removeprefix("_"), help, command)
        where = "the store's folder, for example runs/digits/state, or its URL"
        added.add_argument("store", metavar="STORE", help=f"{where}; {use}")
        return added

    show = action(_show, "list the processes and their last rounds")
    show.add_argument("--json", action="store_true", help="print a JSON list, with metadata and signatures")
    verify = action(_verify, "read everything and verify the checksums")
    verify.add_argument(
        "--drop-damaged", action="store_true", help="drop damaged states; their clients start afresh"
    )
    copy = action(_copy, "copy the last round, even while a training uses the store")
    copy.add_argument("target", metavar="TARGET", help="a new folder for the copy, or the URL of a new store")
    rewind = action(_rewind, "roll back to an earlier round kept by keep_rounds=", "it must not be in use")
    rewind.add_argument("round", metavar="ROUND", type=int, help="the round to return to")
    rewind.add_argument("--process", metavar="ID", help="the process; optional if there is only one")


def _show(arguments: argparse.Namespace) -> int:
    # A plugin may print.
    with contextlib.redirect_stdout(sys.stderr), _open_to_read(arguments.store) as store:
        found = [_facts(name, store.open_process(name)) for name in store.processes()]
    if arguments.json:
        import json

        print(json.dumps(found, indent=2))
        return 0
    rows = [
        (
            facts["process"],
            "-" if facts["last_round"] is None else str(facts["last_round"]),
            str(len(facts["clients"])),
        )
        for facts in found
    ]
    print(table(("PROCESS", "LAST ROUND", "CLIENTS WITH STATE"), rows))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    found: set[str] = set()
    opened = _open_existing if arguments.drop_damaged else _open_to_read
    with opened(arguments.store) as store:
        for name in store.processes():
            is_damaged = False
            for outcome, damage in _damage(store, name, drop=arguments.drop_damaged):
                is_damaged = True
                if damage not in found:  # processes share a file and its damage
                    found.add(damage)
                    print(f"{outcome}  {printable(damage)}", flush=True)
            if not is_damaged:
                print(f"ok    process {name!r}", flush=True)
    return _EXIT_FAILED if found else 0


def _copy(arguments: argparse.Namespace) -> int:
    from fedplug.stores import open_store
    from fedplug.stores.copying import copy_store, transfer, transfer_to_folder

    source, target = (name.removeprefix(_FOLDER) for name in (arguments.store, arguments.target))
    if "://" in target:
        with _open_to_read(source) as store, open_store(target) as copy:
            transfer(store, copy)
    elif "://" in source:
        with _open_to_read(source) as store:
            transfer_to_folder(store, target)
    else:
        copy_store(source, target)
    print(printable(f"copied {arguments.store} to {arguments.target}"))
    return 0


def _rewind(arguments: argparse.Namespace) -> int:
    with _open_existing(arguments.store) as store:
        known = store.processes()
        if arguments.process is None and len(known) != 1:
            raise StoreError(f"{arguments.store} has {len(known)} processes; name one with --process")
        name = known[0] if arguments.process is None else arguments.process
        process = store.open_process(name)
        before = process.last_round
        process.rewind(arguments.round)
    print(f"process {name!r} is rolled back from round {before} to round {arguments.round}")
    return 0


def _open_existing(where: str) -> StateStore:
    """Opens the store in a folder or at a URL.

    Raises:
        StoreError: There is no store in the folder, or it cannot be opened.
        UnknownNameError: The URL names a store that is not installed.
    """
    from fedplug.stores import open_store
    from fedplug.stores.sqlite import require_store

    name = where.removeprefix(_FOLDER)
    if "://" in name:
        return open_store(where)
    require_store(Path(name))  # opening a mistyped folder would create a store
    return open_store(f"{_FOLDER}{name}")


def _open_to_read(where: str) -> StateStore:
    """Opens a store to read states, also on a read-only disk or while it is open elsewhere.

    Raises:
        StoreError: The store cannot be opened. See `_open_existing`.
        UnknownNameError: The URL names a store that is not installed.
    """
    from fedplug.stores import look_into

    name = where.removeprefix(_FOLDER)
    return look_into(where if "://" in name else f"{_FOLDER}{name}")


def _facts(name: str, process: ProcessState) -> dict[str, Any]:
    return {
        "process": name,
        "last_round": process.last_round,
        "clients": process.client_ids(),
        "metadata": process.metadata,
        "signature": process.signature,
    }


def _damage(store: StateStore, name: str, *, drop: bool) -> Iterator[tuple[str, str]]:
    """Yields the outcome and the description of each damage of a process: "fail", or "drop" if it is gone."""
    try:
        process = store.open_process(name)
        if drop:
            yield from (("drop", damage) for damage in process.drop_damaged())
        else:
            yield from (("fail", damage) for damage in process.damage())
    except CorruptStoreError as error:
        yield "fail", str(error)
