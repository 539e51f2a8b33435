"""``fedplug store show STORE``: lists the processes in a store and their last rounds."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.cli.store_open import add_store, look_into
from fedplug.cli.terminal import table

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("show", help="list the processes and their last rounds", parents=[common])
    add_store(parser, "it may be in use")
    parser.add_argument("--json", action="store_true", help="print a JSON list, with metadata and signatures")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    with look_into(arguments.store) as store:
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


def _facts(name: str, process: Any) -> dict[str, Any]:
    return {
        "process": name,
        "last_round": process.last_round,
        "clients": process.client_ids(),
        "metadata": process.metadata,
        "signature": process.signature,
    }
