"""``fedplug plugins check NAME``: runs the conformance suites on a component or a whole distribution."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fedplug.cli.arguments import Commands
from fedplug.errors import CapabilityError, ConfigError, UnknownNameError

if TYPE_CHECKING:
    from fedplug.registry.catalog import Entry
    from fedplug.testing import Result

__all__ = ["add_parser"]

EXIT_FAILED = 1
_WRITTEN = ("encoder", "aggregator", "schedule")
"""The kinds of components that expressions can create."""


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add("check", "test a component or a plugin package against its contract", _run)
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a component, optionally with arguments as in 'topk(0.01)', or a distribution",
    )


def _run(arguments: argparse.Namespace) -> int:
    """Checks in a process of its own, so that a check that ends it has a name."""
    from fedplug.registry.forking import Say, can_fork, forked
    from fedplug.registry.probe import require_importable

    require_importable()
    if not can_fork() or sys.stdout is not sys.__stdout__ or "tensorflow" in sys.modules:
        # A fork loses a caller's output and TensorFlow's threads.
        return _check(arguments.name, lambda what: None)

    def here(say: Say) -> int:
        arguments.command = lambda _: _check(arguments.name, say)
        code: int = arguments.run_command(arguments)
        return code

    code, what, how = forked(here)
    if code >= 0 and not what:
        return code
    promise = what.rpartition(": ")[2]
    print(f"  fail  {promise}\n        {how}\n\nchecks: failed: {what}; the checks after it did not run")
    return EXIT_FAILED


def _check(name: str, say: Callable[[str], None]) -> int:
    """Runs the checks and prints their results."""
    from fedplug.testing import Result

    counts: Counter[str] = Counter()
    failed: list[str] = []
    for title, results in _checked(name, say):
        print(title, flush=True)
        waiting: dict[str, list[str]] = {}
        for result in results:
            status = "not run" if result.not_run else result.status
            counts[status] += 1
            if result.status == "fail":
                waiting[result.promise] = []
            if result.waits_for:
                waiting[Result(result.waits_for, "skip").promise].append(result.promise)
                continue
            reason = f"\n        {result.reason}" if result.reason else ""
            print(f"  {status:<4}  {result.promise}{reason}", flush=True)  # all of them take half a minute
        for promise, others in waiting.items():
            checks = "1 check" if len(others) == 1 else f"{len(others)} checks"
            if others:
                print(f"  not run  {checks} that cannot run before this is fixed: {promise}")
            stopped = f" (therefore these did not run: {', '.join(others)})" if others else ""
            failed.append(f"{title}: {promise}{stopped}")
    say("")
    words = {"ok": "passed", "skip": "do not apply", "not run": "did not run", "fail": "failed"}
    found = ", ".join(f"{counts[key]} {words[key]}" for key in words if counts[key])
    print(f"\nchecks: {found}{': ' if failed else ''}{'; '.join(failed)}")
    return EXIT_FAILED if failed else 0


def _checked(name: str, say: Callable[[str], None]) -> Iterator[tuple[str, Iterator[Result]]]:
    """Yields a title and the results for every package, then for every component and example."""
    from fedplug.registry.specs import ComponentSpec
    from fedplug.testing import PluginPackageSuite, run

    entries, example = _find(name)
    if example:
        _refuse_what_was_mistyped(entries, example)
    for package in dict.fromkeys(entry.distribution for entry in entries if not entry.builtin):
        suite = type("Checked", (PluginPackageSuite,), {"distribution": package})
        yield f"package {package}", run(suite, partial(_say_of, say, f"package {package}"))
    for entry in entries:
        if isinstance(entry.spec, ComponentSpec) and entry.usable:
            for made_as in (example,) if example else entry.examples:
                title = f"{entry.kind} {made_as}"
                yield title, _of_part(entry, made_as, partial(_say_of, say, title))


def _say_of(say: Callable[[str], None], title: str, promise: str) -> None:
    say(f"{title}: {promise}")


def _of_part(entry: Entry, example: str, say: Callable[[str], None]) -> Iterator[Result]:
    from fedplug.testing import Result, components, run
    from fedplug.testing.executions import OnEachExecution

    kind = entry.kind
    for module, title in _needs(entry).items():
        if importlib.util.find_spec(module) is None:
            yield Result("test_it_can_be_made", "skip", f"{title} is not installed", not_run=True)
            return
    say(Result("test_it_can_be_made", "ok").promise)
    try:
        with components.made(kind, example):
            suite = components.suite(kind, example)
    except Exception as error:  # the plugin's error must not stop checks of its other components
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        yield Result("test_it_can_be_made", "fail", reason)
        return
    yield from run(suite, say)
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
    """Raises errors about arguments that the user wrote. They are no failures of the component."""
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
    """Returns the name of the first component of an expression. The text itself if it is not one."""
    from fedplug.registry import expression

    try:
        return expression.parse(text)[0].name
    except ConfigError:
        return text
