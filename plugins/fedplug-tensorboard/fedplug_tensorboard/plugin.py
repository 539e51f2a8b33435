"""What fedplug calls: passes the metrics of rounds on to a writer per training, where one is asked for.

Nothing heavy is imported before the first number is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplug.registry.hookspecs import hookimpl
from fedplug.scalars import scalars
from fedplug_tensorboard.writer import Writer

__all__ = ["VARIABLE", "log_to"]

VARIABLE = "FEDPLUG_TENSORBOARD"
"""Environment variable: the folder to write to; unset or empty: nothing is written."""


class _Sink:
    """The writers of this Python process, and where they write.

    Attributes:
        folder: As `log_to` says; None: as the environment variable says.
        experiment: Of `fedplug run`; empty before one begins.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.experiment = ""
        self._writers: dict[Path, Writer] = {}
        self._last: dict[Path, int] = {}

    def write(self, process_id: str, first_step: int, step: int, numbers: Mapping[str, float]) -> None:
        """Writes numbers of a training; ``first_step`` is where a training that begins here begins."""
        folder = self.folder or os.environ.get(VARIABLE)
        if not folder:
            return
        place = Path(folder) / _as_folder(self.experiment) / _as_folder(process_id)
        writer = self._writers.setdefault(place, Writer(place))
        if first_step <= self._last.get(place, first_step):  # the first one, or trained anew
            writer.begin_at(first_step)
        self._last[place] = step
        writer.write(step, numbers)

    def close(self) -> None:
        """Closes all files; the next number begins others."""
        for writer in self._writers.values():
            writer.close()
        self._writers, self._last = {}, {}


_sink = _Sink()


def log_to(folder: str | Path | None) -> None:
    """Writes the rounds from now on to ``folder``, whatever the environment says.

    Each training has a folder of its own in it: its ``process_id``, under `fedplug run` within one of the
    experiment's name.

    Args:
        folder: Of the logs, which ``tensorboard --logdir`` shows; None: as the environment variable says.
    """
    _sink.close()
    _sink.folder = None if folder is None else Path(folder)
    _sink.experiment = ""  # one that began before is not what comes now


@hookimpl
def fedplug_experiment_started(name: str) -> None:
    """Remembers the name, which is that of a folder."""
    _sink.experiment = name


@hookimpl
def fedplug_round_finished(process: Any, process_id: str, round_num: int, metrics: Mapping[str, Any]) -> None:
    """Writes the metrics of a round, those of tensors by their names."""
    _sink.write(process_id, round_num, round_num, scalars(metrics, process.tensors))


@hookimpl
def fedplug_round_evaluated(process_id: str, round_num: int, metrics: Mapping[str, float]) -> None:
    """Writes what was measured of a round's model.

    Where this is the first that is heard of a training, an interruption came before the evaluation: the
    round's own metrics were written by the process before.
    """
    numbers = {f"evaluation/{name}": value for name, value in scalars(metrics).items()}
    _sink.write(process_id, round_num + 1, round_num, numbers)


def _as_folder(name: str) -> str:
    """A name without what makes folders of it."""
    return name.replace("/", "_").replace("\\", "_").replace("..", "_")
