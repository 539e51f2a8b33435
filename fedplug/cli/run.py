"""``fedplug init [FILE]``, ``fedplug run CONFIG...`` and ``fedplug report FOLDER ...``: experiments.

They write a configuration that explains every key, run the trainings in configurations, and write a page
about one experiment or a comparison of several.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from fedplug.cli.arguments import Commands
from fedplug.cli.terminal import printable
from fedplug.errors import ConfigError

__all__ = ["add_parser"]

_TEMPLATE = Path(__file__).parents[1] / "tff" / "experiment" / "template.toml"


def add_parser(commands: Commands) -> None:
    """Adds the commands."""
    parser = commands.add("init", "write a configuration file to start with, for fedplug run", _init)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="experiment.toml", help="default: experiment.toml"
    )
    parser = commands.add("run", "run the trainings in configuration files", _run)
    parser.add_argument(
        "configs", metavar="CONFIG", nargs="+", help="a TOML file, for example examples/digits.toml"
    )
    parser.add_argument(
        "--runs-dir", metavar="DIR", default="runs", help="write results to DIR/NAME; default: runs"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="override a value of the files, as in rounds=20 or data.clients=10; may be repeated",
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="train only the runs whose names match, as in 'top-k*'; may be repeated",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        default=1,
        help="number of runs to train in parallel, with the same results; default: 1",
    )
    parser.set_defaults(interrupted="interrupted; the same command resumes from the last finished round")
    parser = commands.add("report", "write a page that shows experiments, or compares them", _report)
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="+", type=Path, help="an experiment's results, such as runs/digits"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="output file; default: report.html in the folder, or in the current one if there are several",
    )


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


def _run(arguments: argparse.Namespace) -> int:
    from fedplug.tff import experiment

    experiment.main(
        arguments.configs,
        arguments.runs_dir,
        settings=arguments.settings,
        only=arguments.only,
        jobs=arguments.jobs,
    )
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from fedplug.tff.experiment.report import write_report

    folders = arguments.folders
    out = arguments.out or Path(folders[0] if len(folders) == 1 else ".") / "report.html"
    write_report(folders, out)
    print(printable(str(out)))
    return 0
