"""The hooks that fedplug calls: they forward the metrics of rounds to one writer per training.

Nothing heavy is imported before the first number is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedplug.registry.hookspecs import hookimpl
from fedplug.scalars import scalars
from fedplug_tensorboard.writer import Writer

if TYPE_CHECKING:
    from fedplug.tff.process.learning.stateful_clients import StatefulClientsProcess

__all__ = ["VARIABLE", "log_to"]

VARIABLE = "FEDPLUG_TENSORBOARD"
"""Environment variable with the folder. Nothing is written if it is unset or empty."""


class _Sink:
    """The writers of this Python process, and their folder.

    Attributes:
        folder: The folder from `log_to`. None for the environment variable.
        experiment: The experiment of `fedplug run`. Empty before it starts.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.experiment = ""
        self._writers: dict[Path, Writer] = {}
        self._last: dict[Path, int] = {}

    def write(self, process_id: str, first_step: int, step: int, numbers: Mapping[str, float]) -> None:
        """Writes numbers of a training. ``first_step`` is its first step if it begins here."""
        folder = self.folder or os.environ.get(VARIABLE)
        if not folder:
            return
        place = Path(folder) / _as_folder(self.experiment) / _as_folder(process_id)
        writer = self._writers.setdefault(place, Writer(place))
        if first_step <= self._last.get(place, first_step):  # the training begins, or begins again
            writer.begin_at(first_step)
        self._last[place] = step
        writer.write(step, numbers)

    def close(self) -> None:
        """Closes all files. The next number starts new ones."""
        for writer in self._writers.values():
            writer.close()
        self._writers, self._last = {}, {}


_sink = _Sink()


def log_to(folder: str | Path | None) -> None:
    """Writes the rounds from now on to ``folder``, regardless of the environment.

    Each training has its own folder there, named by its ``process_id``; under `fedplug run` it is inside a
    folder with the experiment's name.

    Args:
        folder: The folder of the logs for ``tensorboard --logdir``. None for the environment variable.
    """
    _sink.close()
    _sink.folder = None if folder is None else Path(folder).absolute()
    _sink.experiment = ""  # the rounds from now on belong to another experiment


@hookimpl
def fedplug_experiment_started(name: str) -> None:
    """Remembers the name of the experiment for its folder."""
    _sink.experiment = name


@hookimpl
def fedplug_round_finished(
    process: StatefulClientsProcess, process_id: str, round_num: int, metrics: Mapping[str, object]
) -> None:
    """Writes the metrics of a round. Tensor metrics have the tensors' names."""
    _sink.write(process_id, round_num, round_num, scalars(metrics, process.tensors))


@hookimpl
def fedplug_round_evaluated(process_id: str, round_num: int, metrics: Mapping[str, float]) -> None:
    """Writes the evaluation of a round's model.

    If it is the first event of a training, that was interrupted before the evaluation: the previous process
    wrote the round's own metrics.
    """
    numbers = {f"evaluation/{name}": value for name, value in scalars(metrics).items()}
    _sink.write(process_id, round_num + 1, round_num, numbers)


def _as_folder(name: str) -> str:
    """Replaces the characters of a name that would create folders."""
    return name.replace("/", "_").replace("\\", "_").replace("..", "_")
