"""``fedplug watch FOLDER``: shows the progress of an experiment that another process runs."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedplug.cli.arguments import Commands, Parser
from fedplug.cli.terminal import printable, table
from fedplug.errors import ConfigError
from fedplug.tff.experiment.display import in_words

if TYPE_CHECKING:
    from fedplug.tff.experiment.watching import Progress

__all__ = ["add_parser"]

_UP_AND_CLEAR = "\x1b[{}A\x1b[J"
"""Moves a terminal's cursor up by a number of lines, and clears from there."""


def add_parser(commands: Commands, common: Parser) -> None:
    """Adds the command."""
    parser = commands.add_parser("watch", help="follow an experiment while it runs", parents=[common])
    parser.add_argument("folder", metavar="FOLDER", help="the folder of its results, for example runs/digits")
    parser.add_argument("--once", action="store_true", help="show the progress once, and exit")
    parser.add_argument("--wait", action="store_true", help="wait for an experiment that has not begun yet")
    parser.add_argument(
        "--interval", metavar="SECONDS", type=float, default=1.0, help="time between updates; default: 1"
    )
    parser.set_defaults(command=_run, interrupted="no longer watching; the experiment continues")


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.interval > 0:
        raise ConfigError(f"--interval is {arguments.interval:g}; it must be above 0")
    folder = Path(arguments.folder)
    if not arguments.wait:
        _require_experiment(folder)
    if arguments.once:
        _show_once(folder)
    elif sys.stdout.isatty():
        _follow_in_place(folder, arguments.interval)
    else:
        _follow_by_line(folder, arguments.interval)
    return 0


def _require_experiment(folder: Path) -> None:
    from fedplug.tff.experiment.watching import Rows, existing, read_progress

    if read_progress(folder, Rows(folder / "metrics.jsonl")) is None:
        raise ConfigError(
            f"there is no experiment in {folder}; name the folder that `fedplug run` writes, runs/NAME, or "
            f"wait for it with --wait{existing(folder)}"
        )


def _show_once(folder: Path) -> None:
    from fedplug.tff.experiment.watching import Rows, read_progress

    progress = read_progress(folder, Rows(folder / "metrics.jsonl"))
    print(_waiting(folder) if progress is None else _page(folder, progress))


def _waiting(folder: Path) -> str:
    from fedplug.tff.experiment.watching import existing

    return printable(f"waiting for an experiment in {folder}{existing(folder)}")


def _follow_in_place(folder: Path, interval: float) -> None:
    """Draws the page over the previous one until the experiment has finished."""
    from fedplug.tff.experiment.watching import Rows, read_progress

    log, drawn = Rows(folder / "metrics.jsonl"), ""
    while True:
        progress = read_progress(folder, log)
        page = _waiting(folder) if progress is None else _page(folder, progress)
        if page != drawn:
            over = _UP_AND_CLEAR.format(drawn.count("\n") + 1) if drawn else ""
            print(over + page, flush=True)
            drawn = page
        if progress is not None and progress.ended:
            return
        time.sleep(interval)


def _follow_by_line(folder: Path, interval: float) -> None:
    """Prints a line for every finished round, and the page at the end; for files and pipes."""
    from fedplug.tff.experiment.watching import Rows, read_progress

    log, waiting = Rows(folder / "metrics.jsonl"), False
    shown: set[tuple[Any, ...]] | None = None
    while True:
        progress = read_progress(folder, log)
        if progress is None:
            if not waiting:
                print(_waiting(folder), flush=True)
            waiting = True
        else:
            rows = {(row["run"], row["seed"], row["round"]): row for row in progress.rows}
            for key, row in rows.items():
                if shown is not None and key not in shown:
                    print(printable(_line(row, progress.metric)), flush=True)
            if shown is None or progress.ended:
                print(_page(folder, progress), flush=True)
            if progress.ended:
                return
            shown = set(rows)
        time.sleep(interval)


def _line(row: Any, metric: str) -> str:
    return (
        f"{row['run']} (seed {row['seed']}) round {row['round']}: "
        f"{in_words(metric)} {_score(row.get(metric))}, "
        f"uplink {_bytes(row['uplink_bytes'])}, downlink {_bytes(row['downlink_bytes'])}"
    )


def _page(folder: Path, progress: Progress) -> str:
    metric = in_words(progress.metric)
    header = ("RUN", "ROUNDS", metric.upper(), "UPLINK", "DOWNLINK", "RATIO TO DENSE", "TIME LEFT")
    rows = [
        (
            run.name,
            f"{run.rounds} of {run.total}",
            _score(run.score),
            _bytes(run.uplink),
            _bytes(run.downlink),
            "-" if run.ratio is None else f"{run.ratio:.1f}x",
            _duration(run.seconds_left),
        )
        for run in progress.runs
    ]
    left = [run.seconds_left for run in progress.runs if run.seconds_left is not None]
    if progress.ended:
        state = "finished" if progress.rounds == progress.total else "the command has ended"
    else:
        state = f"time left {_duration(sum(left) if left else None)}"
    whole = f"{folder}: {progress.rounds} of {progress.total} rounds, {state}"
    return f"{table(header, rows)}\n\n{printable(whole)}"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _bytes(number: float) -> str:
    from fedplug.tff.experiment.display import byte_unit

    scale, unit = byte_unit(number)
    return f"{number:.0f} B" if unit == "B" else f"{number / scale:.2f} {unit}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
