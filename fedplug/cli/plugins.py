"""``fedplug plugins list`` and ``fedplug plugins show NAME``: installed components, and their problems.

`show` prints the spec first, then imports the component to show its arguments. The capabilities of an encoder
or aggregator depend on its arguments, so it is created from each of the spec's `examples`.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fedplug.cli import plugins_check, plugins_new
from fedplug.cli.arguments import Commands
from fedplug.cli.terminal import printable, table

if TYPE_CHECKING:
    from fedplug.registry.catalog import Entry
    from fedplug.registry.specs import Capabilities

__all__ = ["add_parser"]

_HEADER = ("MADE AS", "WIRE ID", "NEEDS", "PROMISES", "DTYPES")
_NEEDS = "needs_"


def add_parser(commands: Commands) -> None:
    """Adds the command and its actions."""
    actions = commands.group("plugins", "list, show, test and write plugins")
    parser = actions.add("list", "list all components, and the plugins with a problem", _list)
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    parser = actions.add("show", "show all about a component, a plugin or a distribution", _show)
    parser.add_argument("name", metavar="NAME", help="a component, an entry point or a distribution")
    plugins_check.add_parser(actions)
    plugins_new.add_parser(actions)


def _list(arguments: argparse.Namespace) -> int:
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


def _show(arguments: argparse.Namespace) -> int:
    import fedplug.api as api
    from fedplug.registry.probe import require_importable
    from fedplug.registry.resolve import catalog

    require_importable()
    make: dict[str, Callable[[str], Any] | None] = {
        "encoder": api.encoder,
        "aggregator": api.aggregator,
        "schedule": None,
        "store": None,
        "runtime": None,
    }
    for position, entry in enumerate(catalog().about(arguments.name)):
        print("\n" * (position > 0) + _described(entry.to_json()), flush=True)
        if entry.usable and entry.kind in make:
            print(_examined(entry, make[entry.kind]), flush=True)
    return 0


def _described(facts: dict[str, object]) -> str:
    """Returns one ``key: value`` line for each non-empty fact."""
    return "\n".join(f"{key + ':':<14}{_written(value)}" for key, value in facts.items() if value)


def _written(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _examined(entry: Entry, make: Callable[[str], object] | None) -> str:
    """Returns a component's arguments and capabilities, or why it cannot be created."""
    from fedplug.registry import resolve

    try:
        arguments = _arguments(resolve.resolve(entry.kind, entry.name))
        if make is None:
            return _described({"arguments": arguments, "made as": ", ".join(entry.examples)})
        rows = [_row(example, make(example)) for example in entry.examples]
    except Exception as error:  # the plugin's error must not hide the other components
        return _described({"problem": f"{type(error).__name__}: {' '.join(str(error).split())}"})
    return f"{_described({'arguments': arguments})}\n\n{table(_HEADER, rows)}"


def _arguments(made: type[object]) -> str:
    """Returns the arguments of a class as in Python, without their types."""
    signature = inspect.signature(made)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _row(example: str, component: Any) -> tuple[str, ...]:
    from fedplug.registry.specs import FLOATS

    capabilities: Capabilities = component.capabilities
    declared = [each.name for each in fields(capabilities) if getattr(capabilities, each.name) is True]
    needs = [name.removeprefix(_NEEDS) for name in declared if name.startswith(_NEEDS)]
    promises = [name for name in declared if not name.startswith(_NEEDS)]
    dtypes = "all floats" if capabilities.dtypes == FLOATS else ", ".join(capabilities.dtypes)
    facts = (getattr(component, "wire_id", ""), ", ".join(needs), ", ".join(promises), dtypes)
    return (example, *(fact or "-" for fact in facts))
