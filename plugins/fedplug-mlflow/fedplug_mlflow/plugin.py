"""What fedplug calls: passes the metrics of rounds on to MLflow, where that is asked for.

MLflow is imported with the first number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedplug.registry.hookspecs import hookimpl
from fedplug.scalars import scalars

if TYPE_CHECKING:
    from fedplug_mlflow.training import Tracking

__all__ = ["VARIABLE", "log_to"]

VARIABLE = "FEDPLUG_MLFLOW"
"""Environment variable: the tracking URI; unset or empty: nothing is logged."""


class _Sink:
    """Where the trainings of this Python process are logged.

    Attributes:
        uri: As `log_to` says; None: as the environment variable says.
        experiment: Of MLflow, as `log_to` says; None: that of `fedplug run`, or "fedplug".
        running: The experiment of `fedplug run`; empty before one begins.
    """

    def __init__(self) -> None:
        self.uri: str | None = None
        self.experiment: str | None = None
        self.running = ""
        self._tracking: Tracking | None = None
        self._broken = False

    def log(
        self, process: Any, process_id: str, round_num: int, numbers: Mapping[str, float], *, begins: bool
    ) -> None:
        """Logs numbers of a training; ``begins``: nothing can have come before them.

        Raises:
            Exception: What MLflow raises; from then on nothing is logged, as every attempt at a server that
                does not answer can take minutes.
        """
        uri = self.uri or os.environ.get(VARIABLE)
        if not uri or self._broken:
            return
        try:
            if self._tracking is None:
                from fedplug_mlflow.training import Tracking

                self._tracking = Tracking(uri)
            experiment = self.experiment or self.running or "fedplug"
            training = self._tracking.training(experiment, process, process_id, round_num, begins=begins)
            training.log(round_num, numbers)
        except Exception:
            self._broken = True
            raise

    def close(self) -> None:
        """Ends the runs; numbers that come later continue them."""
        if self._tracking is not None:
            self._tracking.close()
        self._tracking, self._broken = None, False


_sink = _Sink()


def log_to(tracking_uri: str | os.PathLike[str] | None, experiment: str | None = None) -> None:
    """Logs the rounds from now on to MLflow, whatever the environment says.

    Args:
        tracking_uri: A folder, ``"file:mlruns"``, a server, whatever MLflow takes; None: as the environment
            variable says.
        experiment: Of MLflow; default: the name of `fedplug run`'s experiment, elsewhere "fedplug".
    """
    _sink.close()
    _sink.uri = None if tracking_uri is None else os.fspath(tracking_uri)
    _sink.experiment = experiment
    _sink.running = ""  # an experiment that began before is not what comes now


@hookimpl
def fedplug_experiment_started(name: str) -> None:
    """Remembers the name, which is that of an experiment in MLflow."""
    _sink.running = name


@hookimpl
def fedplug_round_finished(process: Any, process_id: str, round_num: int, metrics: Mapping[str, Any]) -> None:
    """Logs the metrics of a round, those of tensors by their names."""
    numbers = scalars(metrics, process.tensors)
    _sink.log(process, process_id, round_num, numbers, begins=round_num == 1)


@hookimpl
def fedplug_round_evaluated(
    process: Any, process_id: str, round_num: int, metrics: Mapping[str, float]
) -> None:
    """Logs what was measured of a round's model."""
    numbers = {f"evaluation/{name}": value for name, value in scalars(metrics).items()}
    _sink.log(process, process_id, round_num, numbers, begins=round_num == 0)
