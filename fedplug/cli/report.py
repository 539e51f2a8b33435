"""``fedplug report FOLDER ...``: writes a page about one experiment or a comparison of several."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedplug.cli.terminal import printable

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "report", help="write a page that shows experiments, or compares them", parents=[common]
    )
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="+", type=Path, help="an experiment's results, such as runs/digits"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="output file; default: report.html in the folder, or in the current one if there are several",
    )
    parser.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.tff.experiment.report import write_report

    folders = arguments.folders
    out = arguments.out or Path(folders[0] if len(folders) == 1 else ".") / "report.html"
    write_report(folders, out)
    print(printable(str(out)))
    return 0
