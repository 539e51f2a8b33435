"""Trainings as MLflow runs: created, found again by their identity, and continued."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunStatus

if TYPE_CHECKING:
    from fedplug.tff.process.learning.stateful_clients import StatefulClientsProcess

__all__ = ["Tracking", "Training"]

_TAG = "fedplug.training"
"""A tag of runs that identifies the process and its id, as in a store."""

_COMPONENTS = ("process", "encoder", "broadcast_encoder", "aggregator", "distributions")

_LONGEST_PARAM = 500
_MOST_METRICS = 1000
"""MLflow's limit for one request."""


_NO_NAME = re.compile(r"[^\w\-. :/]")
"""Characters that MLflow does not allow in names of metrics."""


class Training:
    """One run of MLflow. A number is logged once per step, and never for earlier steps."""

    def __init__(self, client: MlflowClient, run_id: str, *, continued: bool) -> None:
        """Uses an existing run. ``continued`` says that it may have metrics already."""
        self._client = client
        self._continued = continued
        self._last: dict[str, int] = {}
        self.run_id = run_id

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Logs numbers by name, except those that already have this step or a later one."""
        now = int(time.time() * 1000)
        named = {_NO_NAME.sub("_", key): value for key, value in numbers.items()}
        new = [Metric(key, value, now, step) for key, value in named.items() if step > self._last_of(key)]
        for begin in range(0, len(new), _MOST_METRICS):
            self._client.log_batch(self.run_id, metrics=new[begin : begin + _MOST_METRICS])
        self._last.update({metric.key: step for metric in new})

    def _last_of(self, key: str) -> int:
        if key not in self._last:
            history = self._client.get_metric_history(self.run_id, key) if self._continued else []
            self._last[key] = max((metric.step for metric in history), default=-1)
        return self._last[key]


class Tracking:
    """The runs of this Python process at a tracking URI. They end with `close`, or with the process."""

    def __init__(self, uri: str) -> None:
        self._client = MlflowClient(tracking_uri=uri)
        self._trainings: dict[tuple[str, str], Training] = {}
        self._last: dict[tuple[str, str], int] = {}
        # Unlike atexit, this also runs in a process that multiprocessing has started.
        self._at_exit = Finalize(None, self.close, exitpriority=0)

    def training(
        self,
        experiment: str,
        process: StatefulClientsProcess,
        process_id: str,
        round_num: int,
        *,
        begins: bool,
    ) -> Training:
        """Returns the run of a training.

        A training that begins gets a new run, even if it was trained before. A training that continues uses
        the newest run with the same signature and id, or a new run if there is none.

        Args:
            experiment: The MLflow experiment, created if missing.
            process: The `fedplug.tff.process.StatefulClientsProcess`.
            process_id: The id of the training in a store.
            round_num: The round to log.
            begins: Whether a training begins with this round, unless it has begun already.
        """
        fingerprint = _fingerprint(process, process_id)
        place = (experiment, fingerprint)
        anew = begins and self._last.get(place, 0) > 0
        self._last[place] = round_num
        if place in self._trainings and not anew:
            return self._trainings[place]
        experiment_id = self._experiment_id(experiment)
        found = None if begins else self._newest(experiment_id, fingerprint)
        run_id = found or self._new(experiment_id, fingerprint, process, process_id)
        if place in self._trainings:
            self._client.set_terminated(self._trainings[place].run_id)
        self._client.update_run(run_id, RunStatus.to_string(RunStatus.RUNNING))
        self._trainings[place] = Training(self._client, run_id, continued=found is not None)
        return self._trainings[place]

    def close(self) -> None:
        """Marks the runs as finished."""
        self._at_exit.cancel()
        trainings, self._trainings = self._trainings, {}
        for training in trainings.values():
            self._client.set_terminated(training.run_id)

    def _experiment_id(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return self._client.create_experiment(name) if found is None else found.experiment_id

    def _newest(self, experiment_id: str, fingerprint: str) -> str | None:
        runs = self._client.search_runs(
            [experiment_id],
            f"tags.`{_TAG}` = '{fingerprint}'",
            order_by=["attributes.start_time DESC"],
            max_results=1,
        )
        return runs[0].info.run_id if runs else None

    def _new(
        self, experiment_id: str, fingerprint: str, process: StatefulClientsProcess, process_id: str
    ) -> str:
        tags = {_TAG: fingerprint, "fedplug.process_id": process_id}
        run_id: str = self._client.create_run(experiment_id, tags=tags, run_name=process_id).info.run_id
        params = {**_params(process.signature), "lowering": process.lowering}
        params["dense_bytes"] = str(process.dense_bytes)
        self._client.log_batch(
            run_id, params=[Param(key, value[:_LONGEST_PARAM]) for key, value in params.items()]
        )
        return run_id


def _params(signature: Mapping[str, object]) -> dict[str, str]:
    """Returns the components of a process's signature as texts, with configurations as JSON."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key in _COMPONENTS
        if (value := signature.get(key)) is not None
    }


def _fingerprint(process: StatefulClientsProcess, process_id: str) -> str:
    text = json.dumps([process_id, process.signature], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
