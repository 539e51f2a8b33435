"""``fedplug plugins list``: every component and every plugin with a problem, as a table or as JSON."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Any

from fedplug.cli.terminal import printable, table

if TYPE_CHECKING:
    from fedplug.registry.catalog import Entry

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "list", help="list all components, and the plugins with a problem", parents=[common]
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.registry.probe import require_importable
    from fedplug.registry.resolve import catalog

    require_importable()
    with contextlib.redirect_stdout(sys.stderr):  # a plugin may print
        entries = catalog().entries
    if arguments.json:
        import json

        print(json.dumps([entry.to_json() for entry in entries], indent=2))
        return 0
    rows = [(entry.kind, entry.name, entry.origin, entry.status, _summary(entry)) for entry in entries]
    print(table(("KIND", "NAME", "FROM", "STATUS", "SUMMARY"), rows))
    for entry in catalog().problems():
        problem = printable(f"{entry.kind} {entry.name} ({entry.origin}): {entry.reason}")
        print(f"\n{problem}\n  fix: {printable(entry.fix)}")
    return 0


def _summary(entry: Entry) -> str:
    if entry.status == "disabled":  # the user disabled it, so it is not reported as a problem
        return entry.reason
    if entry.executes_on and "numpy" not in entry.executes_on:
        return f"{entry.spec.summary} (TensorFlow only)" if entry.spec else ""
    where = " (also on CUDA devices)" if "cuda" in entry.executes_on else ""
    return entry.spec.summary + where if entry.spec else ""
