"""The hooks that fedplug calls: they forward the metrics of rounds to MLflow if it is configured.

MLflow is imported with the first number.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedplug.registry.hookspecs import hookimpl
from fedplug.scalars import scalars

if TYPE_CHECKING:
    from fedplug.tff.process.learning.stateful_clients import StatefulClientsProcess
    from fedplug_mlflow.training import Tracking

__all__ = ["VARIABLE", "log_to"]

VARIABLE = "FEDPLUG_MLFLOW"
"""Environment variable with the tracking URI. Nothing is logged if it is unset or empty."""


class _Sink:
    """The destination of this Python process's trainings.

    Attributes:
        uri: The URI from `log_to`. None for the environment variable.
        experiment: The MLflow experiment from `log_to`. None for that of `fedplug run`, or "fedplug".
        running: The experiment of `fedplug run`. Empty before it starts.
    """

    def __init__(self) -> None:
        self.uri: str | None = None
        self.experiment: str | None = None
        self.running = ""
        self._tracking: Tracking | None = None
        self._broken = False

    def log(
        self,
        process: StatefulClientsProcess,
        process_id: str,
        round_num: int,
        numbers: Mapping[str, float],
        *,
        begins: bool,
    ) -> None:
        """Logs numbers of a training. ``begins`` says that they are its first.

        Raises:
            Exception: MLflow raised it. Logging then stops, because each request to a server that does not
                answer can take minutes.
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
        """Ends the runs. Later numbers continue them."""
        if self._tracking is not None:
            self._tracking.close()
        self._tracking, self._broken = None, False


_sink = _Sink()


def log_to(tracking_uri: str | os.PathLike[str] | None, experiment: str | None = None) -> None:
    """Logs the rounds from now on to MLflow, regardless of the environment.

    Args:
        tracking_uri: A folder such as ``"file:mlruns"``, a server, or another URI of MLflow. None for the
            environment variable.
        experiment: The MLflow experiment; by default that of `fedplug run`, or "fedplug".
    """
    _sink.close()
    _sink.uri = None if tracking_uri is None else os.fspath(tracking_uri)
    _sink.experiment = experiment
    _sink.running = ""  # the rounds from now on belong to another experiment


@hookimpl
def fedplug_experiment_started(name: str) -> None:
    """Remembers the name of the experiment for MLflow."""
    _sink.running = name


@hookimpl
def fedplug_round_finished(
    process: StatefulClientsProcess, process_id: str, round_num: int, metrics: Mapping[str, object]
) -> None:
    """Logs the metrics of a round. Tensor metrics have the tensors' names."""
    numbers = scalars(metrics, process.tensors)
    _sink.log(process, process_id, round_num, numbers, begins=round_num == 1)


@hookimpl
def fedplug_round_evaluated(
    process: StatefulClientsProcess, process_id: str, round_num: int, metrics: Mapping[str, float]
) -> None:
    """Logs the evaluation of a round's model."""
    numbers = {f"evaluation/{name}": value for name, value in scalars(metrics).items()}
    _sink.log(process, process_id, round_num, numbers, begins=round_num == 0)
