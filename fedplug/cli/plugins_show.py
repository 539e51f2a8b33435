"""``fedplug plugins show NAME``: all that is known about a part, a plugin or a distribution."""

from __future__ import annotations

import argparse
from typing import Any

from fedplug.errors import UnknownNameError

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("show", help="all that is known about one of them", parents=[common])
    parser.add_argument("name", metavar="NAME", help="a part, an entry point or a distribution")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.manager import catalog

    entries = catalog().entries
    found = [entry for entry in entries if arguments.name in (entry.name, entry.distribution)]
    if not found:
        known = {entry.name for entry in entries} | {entry.distribution for entry in entries}
        raise UnknownNameError("plugin", arguments.name, known)
    print("\n\n".join(_describe(entry.to_json()) for entry in found))
    return 0


def _describe(facts: dict[str, Any]) -> str:
    """One ``key: value`` line for each fact there is."""
    return "\n".join(f"{key + ':':<14}{value}" for key, value in facts.items() if value)
