"""``fedplug run CONFIG``: trains what a configuration file describes."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser"]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser("run", help="train what a configuration file describes", parents=[common])
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, for instance examples/digits.toml")
    parser.add_argument(
        "--runs-dir", metavar="DIR", default="runs", help="where the results go, in DIR/NAME; default: runs"
    )
    parser.set_defaults(
        command=_run, interrupted="interrupted; the same command resumes from the last finished round"
    )


def _run(arguments: argparse.Namespace) -> int:
    from fedplug import experiment

    experiment.main(arguments.config, arguments.runs_dir)
    return 0
