"""``fedplug examples list | run NAME | copy NAME``: the programs in ``examples/`` of a checkout or a wheel.

Listing must be cheap, so it reads the programs as files and does not import them.
"""

from __future__ import annotations

import argparse
import ast
import runpy
import shutil
import sys
from pathlib import Path

from fedplug.cli.arguments import Commands
from fedplug.cli.terminal import printable
from fedplug.errors import ConfigError, UnknownNameError

__all__ = ["add_parser", "find"]

_PACKAGE = Path(__file__).parents[1]


def add_parser(commands: Commands) -> None:
    """Adds the command and its actions."""
    actions = commands.group("examples", "list, run and copy example programs")
    actions.add("list", "list the examples and what they show", _list)
    run = actions.add("run", "run an example", _run)
    run.add_argument("name", metavar="NAME")
    run.add_argument(
        "arguments",
        metavar="...",
        nargs=argparse.REMAINDER,
        help="arguments of the example, for example --help",
    )
    copy = actions.add("copy", "copy an example as a start for your own program", _copy)
    copy.add_argument("name", metavar="NAME")
    copy.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="default: the current folder")


def find() -> dict[str, Path]:
    """Returns the examples by name, sorted, from the installed package or the checkout."""
    installed, checkout = _PACKAGE / "examples_data", _PACKAGE.parent / "examples"
    folder = installed if installed.is_dir() else checkout
    files = [path for path in folder.glob("*") if path.suffix in (".py", ".toml")]
    return {path.stem: path for path in sorted(files)}


def _path(name: str) -> Path:
    examples = find()
    if name not in examples:
        raise UnknownNameError("example", name, examples, see="fedplug examples list")
    return examples[name]


def _summary(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return text.partition("\n")[0].lstrip("# ").partition(":")[0]
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def _list(arguments: argparse.Namespace) -> int:
    from fedplug.cli.terminal import table

    del arguments
    rows = [(name, _summary(path)) for name, path in find().items()]
    print(table(("EXAMPLE", "WHAT IT SHOWS"), rows))
    return 0


def _run(arguments: argparse.Namespace) -> int:
    path = _path(arguments.name)
    if path.suffix == ".toml":
        from fedplug.tff import experiment

        experiment.main(path)
        return 0
    sys.argv = [str(path), *arguments.arguments]
    runpy.run_path(str(path), run_name="__main__")
    return 0


def _copy(arguments: argparse.Namespace) -> int:
    source = _path(arguments.name)
    target = Path(arguments.folder) / source.name
    if target.exists():
        raise ConfigError(f"{target} already exists; remove it, or name another folder")
    shutil.copyfile(source, target)
    print(printable(str(target)))
    return 0
