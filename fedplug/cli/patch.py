"""``fedplug patch OLD STEP -o NEW``: makes the new checkpoint from the old one and a difference."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedplug.cli.progress_line import ProgressLine
from fedplug.cli.terminal import printable

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "patch", help="make a checkpoint from an old one and a difference", parents=[common]
    )
    parser.add_argument("old", metavar="OLD", help="the checkpoint that the difference was made from")
    parser.add_argument("step", metavar="STEP", help="a file of `fedplug diff`")
    parser.add_argument(
        "-o",
        "--output",
        metavar="NEW",
        required=True,
        help="the file to write; a new folder for several files",
    )
    parser.add_argument(
        "--max-bytes", metavar="N", type=int, help="maximum size of NEW; default: twice OLD and 1 GiB"
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.differences import patch_files

    old, step, output = Path(arguments.old), Path(arguments.step), Path(arguments.output)
    with ProgressLine() as line:
        patch_files(old, step, output, max_bytes=arguments.max_bytes, progress=line.show)
    print(printable(f"{output}: equal to the checkpoint that {step} was made from"))
    return 0
