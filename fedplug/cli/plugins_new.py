"""``fedplug plugins new NAME``: writes a plugin package with one encoder that works, to be changed.

The text is in ``templates/``; this module fills in the names. Must not import what it writes about.
"""

from __future__ import annotations

import argparse
import keyword
import re
from pathlib import Path
from string import Template
from typing import Any

from fedplug.errors import ConfigError, PluginError, UnknownNameError

__all__ = ["add_parser"]

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("new", help="write a plugin package to begin with", parents=[common])
    parser.add_argument("name", metavar="NAME", help="of the encoder, for instance acme")
    parser.add_argument(
        "--dir", type=Path, default=Path(), help="where the folder fedplug-NAME is made; default: here"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is no name for an encoder; use lower-case letters, digits and '_', starting with a "
            "letter"
        )
    _refuse_if_taken(name)
    names = _names(name)
    folder = arguments.dir / names["distribution"]
    if folder.exists():
        raise ConfigError(f"{folder} is there already; choose another name or another --dir")
    for template in sorted(path for path in _TEMPLATES.rglob("*.txt")):
        place = folder / Template(str(template.relative_to(_TEMPLATES).with_suffix(""))).substitute(names)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(Template(template.read_text(encoding="utf-8")).substitute(names), encoding="utf-8")
    # Without dependencies: fedplug is installed, and an installer that resolves them again meets TFF's pins.
    print(f"wrote {folder}\n\nnext:\n  uv pip install --no-deps -e {folder}\n  fedplug plugins check {name}")
    return 0


def _refuse_if_taken(name: str) -> None:
    """A part of that name could not be used beside the one that has it, or would take it away."""
    from fedplug.manager import find

    try:
        entry = find("encoder", name)
    except (PluginError, UnknownNameError):
        return
    raise ConfigError(f"{entry.origin} has an encoder {name!r} already; choose another name")


def _names(name: str) -> dict[str, str]:
    words = [word for word in name.split("_") if word]
    return {
        "name": name,
        "distribution": f"fedplug-{'-'.join(words)}",
        "module": f"fedplug_{name}",
        "classname": "".join(word.capitalize() for word in words),
    }
