"""``fedplug store show | verify | repair | copy | rewind STORE``: inspects, copies and repairs a store."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from fedplug.cli.arguments import Commands, Parser
from fedplug.cli.terminal import printable, table
from fedplug.errors import StoreError, StoreInUseError

if TYPE_CHECKING:
    from fedplug.stores import ProcessState, StateStore

__all__ = ["add_parser"]

_EXIT_FAILED = 1
_FOLDER = "sqlite:///"
_UNUSED = "it must not be in use"


class _Facts(TypedDict):
    """The facts of a process that `store show` prints."""

    process: str
    last_round: int | None
    clients: list[str]
    metadata: object
    signature: object


def add_parser(commands: Commands, common: Parser) -> None:
    """Adds the command and its actions."""
    parser = commands.add_parser(
        "store", help="inspect, copy and repair a client-state store", parents=[common]
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def action(name: str, help: str, use: str = _UNUSED) -> Parser:
        added = actions.add_parser(name, help=help, parents=[common])
        where = "the store's folder, for example runs/digits/state, or its URL"
        added.add_argument("store", metavar="STORE", help=f"{where}; {use}")
        return added

    show = action("show", "list the processes and their last rounds", "it may be in use")
    show.add_argument("--json", action="store_true", help="print a JSON list, with metadata and signatures")
    show.set_defaults(command=_show)
    action("verify", "read everything and verify the checksums").set_defaults(command=_verify)
    repair = action("repair", "rebuild a damaged index, and list what is lost")
    repair.add_argument(
        "--drop-damaged", action="store_true", help="drop damaged states; their clients start afresh"
    )
    repair.set_defaults(command=_repair)
    copy = action(
        "copy",
        "copy the last round, even while a training uses the store",
        "it may be in use, unless a folder is copied to a URL",
    )
    copy.add_argument("target", metavar="TARGET", help="a new folder for the copy, or the URL of a new store")
    copy.set_defaults(command=_copy)
    rewind = action("rewind", "roll back to an earlier round kept by keep_rounds=")
    rewind.add_argument("round", metavar="ROUND", type=int, help="the round to return to")
    rewind.add_argument("--process", metavar="ID", help="the process; optional if there is only one")
    rewind.set_defaults(command=_rewind)


def _show(arguments: argparse.Namespace) -> int:
    with _snapshot(arguments.store) as store:
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
    with _open_to_read(arguments.store) as store:
        for name in store.processes():
            is_damaged = False
            for damage in _damage(store, name):
                is_damaged = True
                if damage not in found:  # processes share an index and its damage
                    found.add(damage)
                    print(f"fail  {printable(damage)}", flush=True)  # at once: a large store takes a while
            if not is_damaged:
                print(f"ok    process {name!r}", flush=True)
    return _EXIT_FAILED if found else 0


def _repair(arguments: argparse.Namespace) -> int:
    from fedplug.stores.repair import repair_store

    folder = arguments.store.removeprefix(_FOLDER)
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
    return _EXIT_FAILED if report.lost else 0


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
    """Opens a store to read states, also on a read-only disk; a folder must not be in use.

    Raises:
        StoreError: The store cannot be opened. See `_open_existing`.
        UnknownNameError: The URL names a store that is not installed.
    """
    from fedplug.stores import look_into

    name = where.removeprefix(_FOLDER)
    return look_into(where if "://" in name else f"{_FOLDER}{name}")


@contextmanager
def _snapshot(where: str) -> Iterator[StateStore]:
    """Opens a store to list processes and clients, even while it is open elsewhere.

    Raises:
        StoreError: The store cannot be opened. See `_open_existing`.
    """
    from fedplug.stores.copying import snapshot

    try:
        opened = _open_to_read(where)
    except StoreInUseError:
        with snapshot(where.removeprefix(_FOLDER)) as store:
            yield store
    else:
        with opened:
            yield opened


def _facts(name: str, process: ProcessState) -> _Facts:
    return {
        "process": name,
        "last_round": process.last_round,
        "clients": process.client_ids(),
        "metadata": process.metadata,
        "signature": process.signature,
    }


def _damage(store: StateStore, name: str) -> Iterator[str]:
    try:
        yield from store.open_process(name).damage()
    except StoreError as error:
        yield str(error)
