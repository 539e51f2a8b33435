"""``fedplug plugins new NAME``: writes a plugin package with one working component, to be changed.

The text is in ``templates/``, what all kinds of components share in ``templates/package``; this module fills
in the names.
"""

from __future__ import annotations

import argparse
import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from fedplug.errors import ConfigError, PluginError, UnknownNameError

__all__ = ["add_parser"]

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What the templates of a kind say of the component; ``$name`` is its name.

    Attributes:
        component: Its kind in the registry.
        summary: What the component in the template does.
        use: A line of Python that makes one, after ``import fedplug``.
        example: How it is made to be checked; empty where its name will do.
        imports: The package that it needs beside fedplug.
        specs: What the declaration imports beside its own class.
        declared: What else it declares; lines of arguments.
    """

    component: str
    summary: str
    use: str
    example: str = ""
    imports: str = "tensorflow"
    specs: str = ""
    declared: tuple[str, ...] = ()


_KINDS = {
    "encoder": _Kind(
        component="encoder",
        summary="eight bits per element and one scale per tensor, with error feedback",
        use='payload, state = fedplug.codec("$name").encode(array)',
        imports="numpy",
        specs="EXECUTIONS, ",
        declared=('wire_id="$name/1"', "executes_on=EXECUTIONS"),
    ),
    "assignment": _Kind(
        component="encoder",
        summary="top-k of every tensor, as many entries as the square root of its size",
        use='encoder = fedplug.encoder("$name(2.0)")',
    ),
    "aggregator": _Kind(
        component="aggregator",
        summary="the weighted mean of updates whose entries are cut off at a limit",
        use='aggregator = fedplug.aggregator("$name(0.5)")',
    ),
    "schedule": _Kind(
        component="schedule",
        summary="from one value to another, fast at first and slowly in the end",
        use='encoder = fedplug.encoder("topk($name(0.1, 0.01, 20))")',
        example="$name(0.1, 0.01, 20)",
    ),
    "store": _Kind(
        component="store",
        summary="a file that survives restarts, with checksums",
        use='store = fedplug.open_store("$name:///state.db")',
        example="$name:///{folder}",
        imports="numpy",
    ),
}


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "new", help="write a plugin package as a start for your own", parents=[common]
    )
    parser.add_argument("name", metavar="NAME", help="of the component, for instance acme")
    parser.add_argument(
        "--kind", choices=tuple(_KINDS), default="encoder", help="of the component; default: %(default)s"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        help="where the folder fedplug-NAME is written; default: the current folder",
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    name, kind = arguments.name, arguments.kind
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is no name for a component; use lower-case letters, digits and '_', a letter first"
        )
    _refuse_if_taken(_KINDS[kind].component, name)
    words = _words(kind, name)
    folder = arguments.dir / words["distribution"]
    if folder.exists():
        raise ConfigError(f"{folder} already exists; choose another name or another --dir")
    for templates in (_TEMPLATES / "package", _TEMPLATES / kind):
        for template in sorted(templates.rglob("*.txt")):
            place = folder / _filled(str(template.relative_to(templates).with_suffix("")), words)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_filled(template.read_text(encoding="utf-8"), words), encoding="utf-8")
    # Without dependencies: fedplug is installed, and an installer that resolves them again meets TFF's pins.
    print(f"wrote {folder}\n\nnext:\n  uv pip install --no-deps -e {folder}\n  fedplug plugins check {name}")
    return 0


def _refuse_if_taken(component: str, name: str) -> None:
    """A component of that name could not be used beside the one that has it, or would replace it."""
    from fedplug.registry.resolve import find

    try:
        entry = find(component, name)
    except (PluginError, UnknownNameError):
        return
    raise ConfigError(f"{entry.origin} has the {component} {name!r} already; choose another name")


def _filled(text: str, words: dict[str, str]) -> str:
    return Template(text).substitute(words)


def _words(kind: str, name: str) -> dict[str, str]:
    """What the templates leave open."""
    pieces = [piece for piece in name.split("_") if piece]
    facts = _KINDS[kind]
    example = _filled(facts.example, {"name": name})
    declared = [_filled(argument, {"name": name}) for argument in facts.declared]
    if example:
        declared.append(f'examples=("{example}",)')
    spec = f"{facts.component.capitalize()}Spec"
    return {
        "name": name,
        "kind": kind,
        "component": facts.component,
        "distribution": f"fedplug-{'-'.join(pieces)}",
        "module": f"fedplug_{name}",
        "classname": "".join(map(str.capitalize, pieces)),
        "spec": spec,
        "specs": facts.specs + spec,
        "summary": facts.summary,
        "imports": facts.imports,
        "use": _filled(facts.use, {"name": name}),
        "arguments": "".join(f"\n            {argument}," for argument in declared),
    }
