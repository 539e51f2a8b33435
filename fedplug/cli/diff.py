"""``fedplug diff OLD NEW -o STEP`` and ``fedplug patch OLD STEP -o NEW``.

They write the exact difference between two checkpoints, or show one, and make the new one from it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from fedplug.cli.arguments import Commands
from fedplug.cli.terminal import printable, table
from fedplug.errors import ConfigError

__all__ = ["add_parser"]


def add_parser(commands: Commands) -> None:
    """Adds both commands."""
    parser = commands.add("diff", "write the exact difference between two checkpoints", _diff)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="OLD and NEW, safetensors or index.json files; with --info, a STEP",
    )
    parser.add_argument("-o", "--output", metavar="STEP", help="the file to write")
    parser.add_argument("--info", action="store_true", help="show what a STEP contains, array by array")
    parser = commands.add("patch", "make a checkpoint from an old one and a difference", _patch)
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


def _diff(arguments: argparse.Namespace) -> int:
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
    with _ProgressLine() as line:
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


def _patch(arguments: argparse.Namespace) -> int:
    from fedplug.differences import patch_files

    old, step, output = Path(arguments.old), Path(arguments.step), Path(arguments.output)
    with _ProgressLine() as line:
        patch_files(old, step, output, max_bytes=arguments.max_bytes, progress=line.show)
    print(printable(f"{output}: equal to the checkpoint that {step} was made from"))
    return 0


class _ProgressLine:
    """Rewrites a line of standard error. Nothing is written to anything but a terminal."""

    def __init__(self) -> None:
        self._done = 0

    def __enter__(self) -> _ProgressLine:
        return self

    def show(self, name: str) -> None:
        """Counts one more part, and shows the count and the name."""
        self._done += 1
        self._write(printable(f"{self._done} {name}"))

    def __exit__(self, *unused: object) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
