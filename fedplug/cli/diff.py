"""``fedplug diff OLD NEW -o STEP``: writes the exact difference between two checkpoints, or shows one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedplug.cli.progress_line import ProgressLine
from fedplug.cli.terminal import printable, table
from fedplug.errors import ConfigError

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "diff", help="write the exact difference between two checkpoints", parents=[common]
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="OLD and NEW, safetensors or index.json files; with --info, a STEP",
    )
    parser.add_argument("-o", "--output", metavar="STEP", help="the file to write")
    parser.add_argument("--info", action="store_true", help="show what a STEP contains, array by array")
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    paths = list(map(Path, arguments.paths))
    if arguments.info:
        if len(paths) != 1 or arguments.output:
            raise ConfigError("--info shows one file: fedplug diff --info STEP")
        _show(paths[0])
        return 0
    if len(paths) != 2 or not arguments.output:
        raise ConfigError("name two checkpoints and a file to write: fedplug diff OLD NEW -o STEP")
    from fedplug.differences import diff_files

    step = Path(arguments.output)
    with ProgressLine() as line:
        diff_files(paths[0], paths[1], step, line.show)
    print(f"{printable(str(step))}: {step.stat().st_size:,} bytes")
    return 0


def _show(step: Path) -> None:
    from fedplug.differences import describe_file

    changes = describe_file(step)
    rows = [
        (
            each.name,
            each.kind,
            f"{each.dtype}{list(each.shape)}" if each.dtype else "",
            f"{each.nbytes:,}",
            f"{each.sent:,}",
        )
        for each in changes
    ]
    print(table(("ARRAY", "KIND", "NEW VERSION", "BYTES", "SENT"), rows))
    total, sent = sum(each.nbytes for each in changes), step.stat().st_size
    print(f"{total:,} bytes in {sent:,}: {total / sent:.1f}x fewer")
