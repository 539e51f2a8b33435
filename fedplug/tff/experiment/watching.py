"""The progress of an experiment, read from its folder while another process writes it.

Reads ``config.json``, ``model.json`` and ``metrics.jsonl``. Changes nothing. It imports neither NumPy nor
TensorFlow, so that `fedplug watch` starts quickly.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fedplug.tff.experiment.display import ACCURACY, Json, Row, shown_of

__all__ = ["Progress", "Rows", "RunProgress", "existing", "read_progress"]

_LISTED = 12
"""Maximum number of experiments in a message of one line."""


class RunProgress(NamedTuple):
    """The progress of one run, summed over its seeds.

    Attributes:
        name: The name of the run.
        rounds: Number of finished rounds.
        total: Number of all rounds.
        score: The metric after the last finished round, as a mean over the seeds. None before the first
            round, or if it is not finite.
        uplink: Bytes that all clients have sent so far.
        downlink: Bytes that all clients have received so far.
        ratio: Bytes of the uncompressed updates divided by ``uplink``. None if unknown.
        seconds_left: Number of remaining rounds times the median time of this run's rounds, or of all rounds
            before its first. None before the first of all.
    """

    name: str
    rounds: int
    total: int
    score: float | None
    uplink: int
    downlink: int
    ratio: float | None
    seconds_left: float | None


class Progress(NamedTuple):
    """The progress of an experiment.

    Attributes:
        metric: The key of the displayed metric, usually ``"test_accuracy"``.
        runs: The progress of the runs, in the order of the configuration.
        rows: The logged rows of the finished rounds.
        ended: Whether the command has ended: all rounds are finished, or the table is newer than the log, as
            when only some runs were trained.
    """

    metric: str

    runs: Sequence[RunProgress]
    rows: Sequence[Row]
    ended: bool

    @property
    def rounds(self) -> int:
        """Number of finished rounds of all runs and seeds."""
        return sum(run.rounds for run in self.runs)

    @property
    def total(self) -> int:
        """Number of all rounds of all runs and seeds."""
        return sum(run.total for run in self.runs)


class Rows:
    """The rows of a growing ``metrics.jsonl``. Each call of `read` parses only new lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0
        self._rows: dict[tuple[object, ...], Row] = {}

    def read(self) -> list[Row]:
        """Returns all rows so far; a round that ran again counts once.

        A line counts when its end is written. A file that was replaced, as when an experiment resumes, is
        read from the start.
        """
        try:
            with self._path.open("rb") as file:
                self._begin_anew_if_replaced(file)
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(whole) + len(newline)
        for row in _parsed(whole.splitlines()):
            self._rows[row.get("run"), row.get("seed"), row.get("round")] = row
        return list(self._rows.values())

    def _begin_anew_if_replaced(self, file: BinaryIO) -> None:
        inode, end = os.fstat(file.fileno()).st_ino, file.seek(0, os.SEEK_END)
        if inode != self._inode or end < self._offset:
            self._inode, self._offset, self._rows = inode, 0, {}


def read_progress(folder: Path, log: Rows) -> Progress | None:
    """Returns the progress of a folder's experiment. None while it has no readable configuration.

    Args:
        folder: ``runs/NAME``, which need not exist yet.
        log: The rows of its ``metrics.jsonl``.
    """
    try:
        return _progress(folder, log)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # its files are not those of an experiment


def _progress(folder: Path, log: Rows) -> Progress | None:
    config = _json(folder / "config.json")
    if not _is_experiment(config):
        return None
    rows = log.read()
    model = _json(folder / "model.json")
    dense_bytes = model.get("dense_bytes") if isinstance(model, dict) else None
    seeds = range(config["seed"], config["seed"] + config["repeats"])
    wanted = [row for row in rows if row["seed"] in seeds and row["round"] <= config["rounds"]]
    of_all = _median_seconds(wanted)
    metric = (shown_of(wanted[-1]) if wanted else None) or ACCURACY
    runs = [
        _of_run(
            run["name"],
            [row for row in wanted if row["run"] == run["name"]],
            config["rounds"] * len(seeds),
            metric,
            dense_bytes,
            of_all,
        )
        for run in config["runs"]
    ]
    all_there = all(run.rounds == run.total for run in runs)
    return Progress(metric, runs, wanted, all_there or _table_is_newest(folder))


def existing(folder: Path) -> str:
    """Returns a list of existing experiments, for the end of a message about a folder that has none.

    Args:
        folder: The folder. The search covers it, its parent and, unless it is absolute, ``runs``.
    """
    places = (folder, folder.parent, *(() if folder.is_absolute() else (Path("runs"),)))
    configs = dict.fromkeys(path for place in places for path in sorted(place.glob("*/config.json")))
    found = [str(path.parent) for path in configs if _is_experiment(_json(path))]
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"; there are: {', '.join(found[:_LISTED])}{more}" if found else ""


def _is_experiment(config: object) -> bool:
    return isinstance(config, dict) and bool(config.get("runs"))


def _table_is_newest(folder: Path) -> bool:
    try:
        table, *others = (
            (folder / name).stat().st_mtime_ns for name in ("table.txt", "metrics.jsonl", "config.json")
        )
    except OSError:
        return False
    return table >= max(others)


def _of_run(
    name: str,
    rows: Sequence[Row],
    total: int,
    metric: str,
    dense_bytes: int | None,
    of_all: float | None,
) -> RunProgress:
    uplink = sum(row["uplink_bytes"] for row in rows)
    payloads = sum(row["payloads"] for row in rows)
    last = {row["seed"]: row.get(metric) for row in sorted(rows, key=lambda row: int(row["round"]))}
    scores = [score for score in last.values() if score is not None]
    of_this = _median_seconds(rows)
    seconds = of_all if of_this is None else of_this
    return RunProgress(
        name=name,
        rounds=len(rows),
        total=total,
        score=statistics.fmean(scores) if scores else None,
        uplink=uplink,
        downlink=sum(row["downlink_bytes"] for row in rows),
        ratio=dense_bytes * payloads / uplink if dense_bytes and uplink else None,
        seconds_left=None if seconds is None else seconds * (total - len(rows)),
    )


def _median_seconds(rows: Iterable[Row]) -> float | None:
    timed = [row["seconds"] for row in rows if row["seconds"] is not None]
    return statistics.median(timed) if timed else None


def _parsed(lines: Iterable[bytes]) -> Iterable[Row]:
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # truncated by an interruption; its round runs again
        if isinstance(row, dict):
            yield row


def _json(path: Path) -> Json:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
