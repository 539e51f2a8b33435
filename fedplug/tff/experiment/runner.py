"""One experiment: checks everything, then runs each training with a `Trainer`, resumable after every round.

`fedplug.tff.experiment.jobs` decides on the order and the processes of the trainings.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import tensorflow_federated as tff

import fedplug
from fedplug.diagnostics.environment import environment
from fedplug.errors import ConfigError, FedplugError
from fedplug.registry import resolve
from fedplug.stores.base import StateStore
from fedplug.stores.files import write_whole
from fedplug.tff.experiment import records, report
from fedplug.tff.experiment.config import (
    ExperimentConfig,
    OptimizerConfig,
    RunConfig,
    check_clients_per_round,
)
from fedplug.tff.experiment.data import load_data
from fedplug.tff.experiment.data.federated import fingerprint
from fedplug.tff.experiment.display import ACCURACY, Json, in_words, shown_of
from fedplug.tff.experiment.model.builder import ModelBuilder
from fedplug.tff.experiment.model.client_datasets import client_datasets
from fedplug.tff.experiment.model.evaluator import Evaluator
from fedplug.tff.experiment.progress import TrainingProgress
from fedplug.tff.experiment.records import MetricsLog, Provenance, of_round, record_environment, write_model
from fedplug.tff.process import ProximalOptimizer, StatefulClientsProcess
from fedplug.tff.process.arguments import as_encoder
from fedplug.tff.process.learning.components import Shared, sharing
from fedplug.tff.structures import Structure
from fedplug.tff.training.trainer import Trainer

__all__ = ["Built", "Experiment", "Folder", "Plan", "TrainingId", "write_results"]


class Plan(NamedTuple):
    """The plan of an experiment.

    Attributes:
        config: The configuration.
        base: The folder of the configuration file, where data and functions are searched first.
        folder: The folder of the results.
        runs: The names of the runs to train, in order.
    """

    config: ExperimentConfig
    base: Path
    folder: Path
    runs: tuple[str, ...]

    @property
    def trainings(self) -> list[TrainingId]:
        """All pairs of a run and a seed."""
        return [TrainingId(run, seed) for run in self.runs for seed in self.config.seeds]


class TrainingId(NamedTuple):
    """A run with one of the seeds."""

    run: str
    seed: int

    @property
    def process_id(self) -> str:
        """The id of the training in the store."""
        return f"{self.run} (seed {self.seed})"


class Built(NamedTuple):
    """The description of a built process, in JSON values.

    Attributes:
        signature: The signature that a store compares.
        dense_bytes: Size of one uncompressed update in bytes.
        provenance: The records of its components.
        tensors: The tensors of an update.
    """

    signature: dict[str, Json]
    dense_bytes: int
    provenance: list[dict[str, str]]
    tensors: list[dict[str, Json]]

    @classmethod
    def of(cls, process: StatefulClientsProcess) -> Built:
        """Returns the description of a process."""
        return cls(process.signature, process.dense_bytes, process.provenance, process.tensors)


class Experiment:
    """The data, the model and the processes of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Reads the data and builds the model, to find all errors early. Writes nothing.

        Raises:
            ConfigError: The folder holds an experiment with other settings. An encoder, the data or the
                model is invalid, or data and model do not fit each other.
            MissingDependencyError: scikit-learn or Matplotlib is not installed.
            PluginError: A component of an earlier run of this folder is not installed now.
            StoreError: The folder's description cannot be read.
        """
        config = plan.config
        self.plan = plan
        provenance = Provenance(plan.folder / "provenance.json")
        for run in config.runs:
            with _naming(run), provenance.naming_what_is_missing(run.name):
                as_encoder(run.encoder)
                as_encoder(run.broadcast_encoder or "identity")
                fedplug.aggregator(run.aggregator)
        report.require_libraries()
        records.check_settings(plan.folder, config)
        self._data = {seed: load_data(config.data, seed, plan.base) for seed in config.seeds}
        for data in self._data.values():
            check_clients_per_round(config.clients_per_round, len(data.clients))
        self._model = ModelBuilder(config.model, self._data[config.seed], plan.base)
        self._evaluators = {seed: Evaluator(self._model, data.test) for seed, data in self._data.items()}
        metric = shown_of(next(iter(self._evaluators.values())).keys) or ACCURACY
        if config.target_accuracy and metric != ACCURACY:
            raise ConfigError(
                f"target_accuracy is {config.target_accuracy}; it must be left out, because the model's "
                f"metric is {in_words(metric)}"
            )
        self._processes: dict[str, StatefulClientsProcess] = {}
        self._shared: Shared = {}

    def fingerprints(self) -> records.Fingerprints:
        """Returns the fingerprints of the data by seed. Reads all data.

        Raises:
            ConfigError: The rounds in the folder were made with other data.
            StoreError: The folder's description of its data cannot be read.
        """
        found = {seed: fingerprint(data) for seed, data in self._data.items()}
        records.check_data(self.plan.folder, found)
        return found

    def process(self, name: str) -> StatefulClientsProcess:
        """Returns the process of a run, built once for the current runtime.

        Raises:
            ConfigError: An encoder does not fit the model.
            CapabilityError: The components of the run do not fit each other.
        """
        if name not in self._processes:
            (run,) = (run for run in self.plan.config.runs if run.name == name)
            with sharing(self._shared):
                self._processes[name] = _process(self.plan.config, run, self._model)
        return self._processes[name]

    def train(
        self, training: TrainingId, store: StateStore, log: MetricsLog, progress: TrainingProgress
    ) -> None:
        """Runs the rounds that the store does not hold."""
        config, seed = self.plan.config, training.seed
        trainer = Trainer(
            self.process(training.run),
            client_datasets(config.data, self._data[seed].clients, seed),
            store=store,
            process_id=training.process_id,
            clients_per_round=config.clients_per_round,
            seed=seed,
            initial_weights=self._model.initial_weights(seed),
        )
        resolve.notify(
            "fedplug_experiment_started", name=config.name, folder=self.plan.folder, config=config.as_dict()
        )
        _train_one(training, trainer, self._evaluators[seed], config.rounds, log, progress)


class Folder:
    """The open folder of an experiment: its store and the other files.

    It holds ``config.json``, ``data.json``, ``provenance.json``, ``model.json``, ``environment.json``,
    ``metrics.jsonl``, ``table.txt``, ``accuracy.svg``, ``report.html`` and ``state/``, the store.

    Attributes:
        store: The store with the states of all trainings.
        log: The log of all rounds.
        states: The state of every training in the store.
        done: The number of rounds in the store, by training.
    """

    def __init__(self, plan: Plan, built: Mapping[str, Built], fingerprints: records.Fingerprints) -> None:
        """Opens the folder, and creates it if there is none.

        Args:
            plan: The plan of the experiment.
            built: The descriptions of the processes, by run name.
            fingerprints: The fingerprints of the data.

        Raises:
            StoreError: The folder cannot be written, or its store is damaged or in use by another command.
            StoreMismatchError: The store holds another model or encoder.
        """
        # The store comes first: it may be unknown, or in use by another run of this folder.
        scheme = plan.config.store
        self.store = fedplug.open_store(
            "memory://" if scheme == "memory" else f"{scheme}:///{plan.folder}/state"
        )
        try:
            records.claim(plan.folder, plan.config, fingerprints)
            Provenance(plan.folder / "provenance.json").write(
                {name: of_run.provenance for name, of_run in built.items()}
            )
            one = next(iter(built.values()))
            write_model(plan.folder / "model.json", one.dense_bytes, one.tensors)
            record_environment(plan.folder / "environment.json", environment())
            self.log = MetricsLog(plan.folder / "metrics.jsonl")
            self.states = {
                each: self.store.open_process(each.process_id, built[each.run].signature)
                for each in plan.trainings
            }
            self.done = {each: state.last_round or 0 for each, state in self.states.items()}
            self.log.keep_up_to({(run, seed): rounds for (run, seed), rounds in self.done.items()})
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Closes the store."""
        self.store.close()

    def sent(self, training: TrainingId) -> int:
        """Returns the bytes that the clients of a training have sent so far."""
        return sum(row["uplink_bytes"] for row in self.log.rows(*training))


def write_results(folder: Path) -> None:
    """Writes and prints the tables and draws the picture of all runs that have rounds.

    Raises:
        StoreError: The folder cannot be written.
    """
    (experiment,) = report.read_experiments([folder])
    tables = report.printed(experiment)
    write_whole(folder / "table.txt", tables + "\n")
    report.plot(folder, folder / "accuracy.svg")
    report.write_report([folder], folder / "report.html")
    print(
        f"\n{tables}\n\nreport: {folder / 'report.html'}   plot: {folder / 'accuracy.svg'}   "
        f"metrics: {folder / 'metrics.jsonl'}"
    )


def _train_one(
    training: TrainingId,
    trainer: Trainer,
    evaluator: Evaluator,
    rounds: int,
    log: MetricsLog,
    progress: TrainingProgress,
) -> None:
    def record(round_num: int, state: Structure, metrics: Structure, seconds: float | None) -> None:
        aggregated = metrics["aggregator"]
        measured = evaluator.evaluate(state.global_model_weights)
        loss = metrics["client_work"]["train"].get("loss", math.nan)  # a model of TFF may have none
        row = {
            **training._asdict(),
            "round": round_num,
            **_finite(measured),
            **_finite({"train_loss": float(loss)}),
            "uplink_bytes": int(aggregated["uplink_bytes"]),
            "downlink_bytes": int(metrics["distributor"]["downlink_bytes"]),
            "clients": int(aggregated["clients"]),
            "payloads": int(aggregated["payloads"]),
            "nonfinite_updates": int(aggregated["nonfinite_updates"]),
            "seconds": seconds,
            "client_ids": trainer.sample(round_num),
            **of_round(trainer.process, aggregated),
        }
        log.append(row)
        trainer.log_metrics(round_num, measured)
        progress.show(row)

    state = trainer.initialize()
    last = trainer.last_round or 0
    if last and not any(row["round"] == last for row in log.rows(*training)):
        record(last, state, trainer.last_metrics, None)  # interrupted between the commit and the log
    started = None if last else time.perf_counter()  # a resumed training's first round includes start-up

    def on_round(round_num: int, state: Structure, metrics: Structure) -> None:
        nonlocal started
        record(round_num, state, metrics, None if started is None else time.perf_counter() - started)
        progress.advance()
        started = time.perf_counter()

    trainer.run(rounds, on_round)


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Replaces values that are not finite by None, because JSON cannot represent them."""
    return {key: value if math.isfinite(value) else None for key, value in values.items()}


def _process(config: ExperimentConfig, run: RunConfig, model: ModelBuilder) -> StatefulClientsProcess:
    with _naming(run):
        return fedplug.tff.process.build_weighted_fed_avg(
            model.model_fn(config.seed),
            _client_optimizer(config.client_optimizer, run.proximal_strength),
            _optimizer(config.server_optimizer),
            encoder=run.encoder,
            broadcast_encoder=run.broadcast_encoder or None,
            aggregator=run.aggregator,
            min_size=run.min_size,
            tensor_metrics=config.tensor_metrics,
            secure_sum=run.secure_sum,
        )


@functools.cache
def _client_optimizer(config: OptimizerConfig, proximal_strength: float) -> Structure:
    plain = _optimizer(config)
    return ProximalOptimizer(plain, proximal_strength) if proximal_strength else plain


@contextlib.contextmanager
def _naming(run: RunConfig) -> Iterator[None]:
    """Adds the name of the run to errors."""
    try:
        yield
    except FedplugError as error:
        error.args = (f"run {run.name!r}: {error}",)
        raise


@functools.cache
def _optimizer(config: OptimizerConfig) -> Structure:
    return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)
