"""``fedplug run CONFIG...``: runs the trainings in configuration files."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("run", help="run the trainings in configuration files", parents=[common])
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
    parser.set_defaults(
        command=_run, interrupted="interrupted; the same command resumes from the last finished round"
    )


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
