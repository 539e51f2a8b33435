"""``fedplug plugins new NAME``: writes a plugin package with one working component to modify.

The text is in ``templates/``. The parts that all kinds share are in ``templates/package``.
"""

from __future__ import annotations

import argparse
import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

from fedplug.cli.arguments import Commands
from fedplug.errors import ConfigError, PluginError, UnknownNameError

__all__ = ["add_parser"]

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """The values for the templates of one kind of component. ``$name`` stands for its name.

    Attributes:
        summary: A summary of the template's component.
        use: A line of Python that creates one, after ``import fedplug``.
        example: The expression to check. Empty if the name is enough.
        component: The kind in the registry. Empty if it has the same name.
        imports: The package that it needs besides fedplug.
        declared: Further arguments of the declaration, one per line.
        build: The values of ``[build-system]``, the table of the build tool, and its key for the package.
    """

    summary: str
    use: str
    example: str = ""
    component: str = ""
    imports: str = "tensorflow"
    declared: tuple[str, ...] = ()
    build: tuple[str, str, str, str] = (
        '"setuptools>=64"',
        "setuptools.build_meta",
        "setuptools",
        "packages",
    )


_KINDS = {
    "encoder": _Kind(
        summary="eight bits per element and one scale per tensor, with error feedback",
        use='payload, state = fedplug.codec("$name").encode(array)',
        imports="numpy",
        declared=('wire_id="$name/1"', "executes_on=EXECUTIONS"),
    ),
    "assignment": _Kind(
        component="encoder",
        summary="top-k of every tensor, with k proportional to the square root of its size",
        use='encoder = fedplug.encoder("$name(2.0)")',
    ),
    "aggregator": _Kind(
        summary="the weighted mean of updates whose entries are clipped to a limit",
        use='aggregator = fedplug.aggregator("$name(0.5)")',
    ),
    "schedule": _Kind(
        summary="from one value to another, fast at first and slowly at the end",
        use='encoder = fedplug.encoder("topk($name(0.1, 0.01, 20))")',
        example="$name(0.1, 0.01, 20)",
    ),
    "store": _Kind(
        summary="a file that survives restarts, with checksums",
        use='store = fedplug.open_store("$name:///state.db")',
        example="$name:///{folder}",
        imports="numpy",
    ),
    "stage": _Kind(
        component="encoder",
        summary="four bits per value and one scale, a quantizer for pipelines",
        use='payload, state = fedplug.codec("topk(0.01) | $name | rans").encode(array)',
        example="topk(0.3) | $name | rans",
        imports="numpy",
        declared=('wire_id="$name/1"', "executes_on=EXECUTIONS"),
    ),
    "runtime": _Kind(
        summary="computations in this process, counted",
        use='fedplug.use_runtime("$name")',
        imports="fedplug[tff]",
    ),
    "observer": _Kind(
        summary="logs what the clients of each round sent",
        use='logging.basicConfig(level="INFO")  # before a training',
        imports="pluggy",
    ),
}

_COMPILED = _Kind(
    summary="eight bits per value and one scale, a quantizer with a C++ kernel",
    use='payload, state = fedplug.codec("topk(0.01) | $name").encode(array)',
    imports="numpy",
    declared=('wire_id="$name/1"', 'executes_on=("numpy",)'),
    build=(
        '"scikit-build-core>=0.11", "pybind11>=2.13"',
        "scikit_build_core.build",
        "scikit-build",
        "wheel.packages",
    ),
)
"""A quantizer, because it is an encoder when it stands alone, and a stage in a pipeline."""


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add("new", "write a plugin package as a start for your own", _run)
    parser.add_argument("name", metavar="NAME", help="name of the component, for example acme")
    parser.add_argument(
        "--kind", choices=tuple(_KINDS), default="encoder", help="kind of component; default: %(default)s"
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="for an encoder or a stage: write a quantizer with a kernel in C++, for NumPy arrays",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        help="where to write the folder fedplug-NAME; default: the current folder",
    )


def _run(arguments: argparse.Namespace) -> int:
    name, kind = arguments.name, arguments.kind
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is not a valid component name; use lower-case letters, digits and '_', a letter first"
        )
    facts = _KINDS[kind]
    component = facts.component or kind
    _refuse_if_taken(component, name)
    if arguments.compiled:
        if kind not in ("encoder", "stage"):
            raise ConfigError(f"--compiled writes an encoder or a stage; leave it out for --kind {kind}")
        kind, facts = "quantizer", _COMPILED
    words = _words(kind, component, facts, name)
    folder = arguments.dir / words["distribution"]
    if folder.exists():
        raise ConfigError(f"{folder} already exists; choose another name or another --dir")
    for templates in (_TEMPLATES / "package", _TEMPLATES / kind):
        for template in sorted(templates.rglob("*.txt")):
            place = folder / _filled(str(template.relative_to(templates).with_suffix("")), words)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_filled(template.read_text(encoding="utf-8"), words), encoding="utf-8")
    # --no-deps: fedplug is installed already, and resolving its dependencies again would meet TFF's pins.
    steps = f"pip install --no-deps -e {folder}\n  fedplug plugins check {words['checked']}"
    print(f"wrote {folder}\n\nnext:\n  {steps}")
    return 0


def _refuse_if_taken(component: str, name: str) -> None:
    """Raises `ConfigError` if the name belongs to an installed component."""
    from fedplug.registry.resolve import find

    try:
        entry = find(component, name)
    except (PluginError, UnknownNameError):
        return
    raise ConfigError(f"{entry.origin} already has the {component} {name!r}; choose another name")


def _filled(text: str, words: dict[str, str]) -> str:
    return Template(text).substitute(words)


def _words(kind: str, component: str, facts: _Kind, name: str) -> dict[str, str]:
    """Returns the values of the templates' placeholders."""
    pieces = [piece for piece in name.split("_") if piece]
    example = _filled(facts.example, {"name": name})
    declared = [_filled(argument, {"name": name}) for argument in facts.declared]
    if example:
        declared.append(f'examples=("{example}",)')
    requires, backend, tool, packages = facts.build
    spec = f"{component.capitalize()}Spec"
    return {
        "name": name,
        "kind": kind,
        "checked": f"fedplug-{'-'.join(pieces)}" if kind == "observer" else name,
        "component": component,
        "distribution": f"fedplug-{'-'.join(pieces)}",
        "module": f"fedplug_{name}",
        "classname": "".join(map(str.capitalize, pieces)),
        "spec": spec,
        "specs": f"EXECUTIONS, {spec}" if "executes_on=EXECUTIONS" in declared else spec,
        "summary": facts.summary,
        "imports": facts.imports,
        "requires": requires,
        "backend": backend,
        "tool": tool,
        "packages": packages,
        "use": _filled(facts.use, {"name": name}),
        "arguments": "".join(f"\n            {argument}," for argument in declared),
    }
