"""``fedplug init [FILE]``: writes a configuration to start with, which explains every key."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from fedplug.cli.terminal import printable
from fedplug.errors import ConfigError

__all__ = ["add_parser"]

_TEMPLATE = Path(__file__).parents[1] / "tff" / "experiment" / "template.toml"


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "init", help="write a configuration file to start with, for fedplug run", parents=[common]
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="experiment.toml", help="default: experiment.toml"
    )
    parser.set_defaults(command=_init)


def _init(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "experiment"
    text = _TEMPLATE.read_text(encoding="utf-8").replace("NAME", name).replace("FILE", printable(str(path)))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} already exists; remove it, or name another file") from error
    print(printable(f"{path}; run it with: fedplug run {path}"))
    return 0
