"""``fedplug plugins check NAME``: runs the conformance suites on a component or a whole distribution."""

from __future__ import annotations

import argparse
import importlib.util
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fedplug.errors import CapabilityError, ConfigError, UnknownNameError

if TYPE_CHECKING:
    from fedplug.registry.catalog import Entry
    from fedplug.testing import Result

__all__ = ["add_parser"]

EXIT_FAILED = 1
_WRITTEN = ("encoder", "aggregator", "schedule")
"""The kinds of components that expressions can create."""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "check", help="test a component or a plugin package against its contract", parents=[common]
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a component, optionally with arguments as in 'topk(0.01)', or a distribution",
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.testing import Result

    counts: Counter[str] = Counter()
    for title, results in _checked(arguments.name):
        print(title, flush=True)
        waiting: Counter[str] = Counter()
        for result in results:
            status = "not run" if result.not_run else result.status
            counts[status] += 1
            if result.waits_for:
                waiting[Result(result.waits_for, "skip").promise] += 1
                continue
            # Printed one by one: all of them take half a minute.
            reason = f"\n        {result.reason}" if result.reason else ""
            print(f"  {status:<4}  {result.promise}{reason}", flush=True)
        for promise, count in waiting.items():
            checks = "1 check" if count == 1 else f"{count} checks"
            print(f"  not run  {checks} that cannot run before this is fixed: {promise}")
    said = {"fail": "failed", "ok": "passed", "skip": "do not apply", "not run": "did not run"}
    print(
        "\nchecks: "
        + ", ".join(f"{counts[status]} {what}" for status, what in said.items() if counts[status])
    )
    return EXIT_FAILED if counts["fail"] else 0


def _checked(name: str) -> Iterator[tuple[str, Iterator[Result]]]:
    """Yields a title and the results for every package, then for every component and example."""
    from fedplug.registry.specs import ComponentSpec
    from fedplug.testing import PluginPackageSuite, run

    entries, example = _find(name)
    if example:
        _refuse_what_was_mistyped(entries, example)
    for package in dict.fromkeys(entry.distribution for entry in entries if not entry.builtin):
        yield f"package {package}", run(type("Checked", (PluginPackageSuite,), {"distribution": package}))
    for entry in entries:
        if isinstance(entry.spec, ComponentSpec) and entry.usable:
            for made_as in (example,) if example else entry.examples:
                yield f"{entry.kind} {made_as}", _of_part(entry, made_as)


def _of_part(entry: Entry, example: str) -> Iterator[Result]:
    from fedplug.testing import Result, components, run
    from fedplug.testing.executions import OnEachExecution

    kind = entry.kind
    for module, title in _needs(entry).items():
        if importlib.util.find_spec(module) is None:
            yield Result("test_it_can_be_made", "skip", f"{title} is not installed", not_run=True)
            return
    try:
        with components.made(kind, example):
            suite = components.suite(kind, example)
    except Exception as error:  # the plugin's error must not stop checks of its other components
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        yield Result("test_it_can_be_made", "fail", reason)
        return
    yield from run(suite)
    for name, reason in suite().unavailable().items() if issubclass(suite, OnEachExecution) else ():
        yield Result(f"test_on_{name}", "skip", reason, not_run=True)


def _needs(entry: Entry) -> dict[str, str]:
    """Returns the optional modules without which a component cannot be checked, with their titles."""
    if entry.kind == "runtime":
        return {"tensorflow_federated": "TensorFlow Federated"}
    if entry.kind == "aggregator" or (entry.kind == "encoder" and "numpy" not in entry.executes_on):
        return {"tensorflow": "TensorFlow"}
    return {}


def _refuse_what_was_mistyped(entries: list[Entry], example: str) -> None:
    """Raises errors about arguments that the user wrote; they are no failures of the component."""
    from fedplug.testing import components

    for entry in entries:
        try:
            with components.made(entry.kind, example):
                pass
        except (ConfigError, CapabilityError):
            raise
        except Exception:
            continue  # `_of_part` reports it


def _find(name: str) -> tuple[list[Entry], str | None]:
    """Returns the entries of a name, and the expression if the name has arguments."""
    from fedplug.registry.resolve import catalog

    try:
        return catalog().about(name), None
    except UnknownNameError:
        found = [entry for entry in catalog().about(_first_word(name)) if entry.kind in _WRITTEN]
        if found:
            return found, name
        raise


def _first_word(text: str) -> str:
    """Returns the name of the first component of an expression; the text itself if it is not one."""
    from fedplug.registry import expression

    try:
        return expression.parse(text)[0].name
    except ConfigError:
        return text
