"""``fedplug plugins check NAME``: runs the conformance kit on a part, or on all a distribution brings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fedplug.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from fedplug.catalog import Entry
    from fedplug.testing import Suite

__all__ = ["add_parser"]

EXIT_FAILED = 1


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("check", help="test one of them against its contract", parents=[common])
    parser.add_argument(
        "name", metavar="NAME", help="a part, also with arguments as in 'topk(0.01)', or a distribution"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.testing import run

    failed = total = 0
    for title, suite in _suites(arguments.name):
        print(title, flush=True)
        for result in run(suite):
            total += 1
            failed += result.status == "fail"
            # Printed one by one: all of them take half a minute.
            reason = f"\n        {result.reason}" if result.reason else ""
            print(f"  {result.status:<4}  {result.promise}{reason}", flush=True)
    print(
        f"\n{failed} of {total} checks failed" if failed else f"\nall {total} checks are ok or do not apply"
    )
    return EXIT_FAILED if failed else 0


def _suites(name: str) -> list[tuple[str, type[Suite]]]:
    """The suites to run, each with a title: one for every package, one for every part and example."""
    from fedplug.spec import PartSpec
    from fedplug.testing import PluginPackageSuite, parts

    entries, example = _find(name)
    packages = dict.fromkeys(entry.distribution for entry in entries if not entry.builtin)
    suites: list[tuple[str, type[Suite]]] = [
        (f"package {package}", type("Checked", (PluginPackageSuite,), {"distribution": package}))
        for package in packages
    ]
    for entry in entries:
        if isinstance(entry.spec, PartSpec) and entry.status == "ok":
            made_as = (example,) if example else entry.examples
            suites += [(f"{entry.kind} {each}", parts.suite(entry.kind, each)) for each in made_as]
    return suites


def _find(name: str) -> tuple[list[Entry], str | None]:
    """The entries that are meant, and how to make the part where the name says it."""
    from fedplug import expression
    from fedplug.manager import catalog

    entries = catalog().entries
    found = [entry for entry in entries if name in (entry.name, entry.distribution)]
    if found:
        return found, None
    try:
        first = expression.parse(name)[0].name
    except ConfigError:
        first = name
    found = [entry for entry in entries if first == entry.name and entry.kind != "store"]
    if not found:
        known = {entry.name for entry in entries} | {entry.distribution for entry in entries}
        raise UnknownNameError("plugin", first, known)
    return found, name
