"""Runs an experiment: every run through `fedplug.Trainer`, resumable after every round."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.diagnostics.environment import environment
from fedplug.errors import ConfigError, FedplugError, StoreError
from fedplug.experiment import report, task
from fedplug.experiment.config import ExperimentConfig, OptimizerConfig, RunConfig
from fedplug.experiment.digits import Examples, load_digits
from fedplug.experiment.environments import record_environment
from fedplug.experiment.files import write_whole
from fedplug.experiment.metrics_log import MetricsLog
from fedplug.experiment.provenance import Provenance
from fedplug.experiment.tensors import of_round, write_model
from fedplug.process import ProximalOptimizer, StatefulClientsProcess
from fedplug.process.arguments import as_encoder
from fedplug.registry import resolve
from fedplug.training.trainer import Trainer

__all__ = ["run_experiment"]

_MAY_CHANGE = ("rounds", "repeats", "target_accuracy", "tensor_metrics")
"""The settings of a folder that no finished round depends on."""


class _Training(NamedTuple):
    """A run with one of the seeds."""

    run: str
    seed: int
    trainer: Trainer
    evaluator: task.Evaluator


def run_experiment(config: ExperimentConfig, runs_dir: Path) -> None:
    """Runs or resumes an experiment in ``runs_dir/<name>/`` and reports.

    The folder holds ``config.json``, ``provenance.json``, ``environment.json``, ``metrics.jsonl``,
    ``table.txt``, ``accuracy.png``, ``report.html`` and ``state/``, the store.

    Raises:
        ConfigError: The folder holds an experiment with other settings, or an encoder is not valid or does
            not fit the model.
        MissingDependencyError: scikit-learn or Matplotlib is not installed.
        PluginError: A component that an earlier run of this folder was made with is not installed any more.
        StoreError: The folder cannot be written, or its store is damaged.
    """
    folder = runs_dir / config.name
    provenance = Provenance(folder / "provenance.json")
    for run in config.runs:
        with _naming(run), provenance.naming_what_is_missing(run.name):
            as_encoder(run.encoder)
            as_encoder(run.broadcast_encoder or "identity")
            fedplug.aggregator(run.aggregator)
    report.require_matplotlib()
    _check_is_of(folder, config)
    images = {seed: load_digits(config.data, seed) for seed in config.seeds}
    evaluators = {seed: task.Evaluator(config.model, images[seed].test) for seed in config.seeds}
    with fedplug.use_runtime(config.runtime):
        processes = {run.name: _process(config, run) for run in config.runs}
        # The store first: it may be unknown, or in use by another run of this folder.
        with fedplug.open_store(_store_url(config.store, folder)) as store:
            _claim(folder, config)
            provenance.write({name: process.provenance for name, process in processes.items()})
            one = next(iter(processes.values()))
            write_model(folder / "model.json", one.dense_bytes, one.tensors)
            record_environment(folder / "environment.json", environment())
            log = MetricsLog(folder / "metrics.jsonl")
            trainings = [
                _Training(
                    name,
                    seed,
                    _trainer(config, seed, name, process, images[seed].clients, store),
                    evaluators[seed],
                )
                for name, process in processes.items()
                for seed in config.seeds
            ]
            log.keep_up_to({(each.run, each.seed): each.trainer.last_round or 0 for each in trainings})
            resolve.notify(
                "fedplug_experiment_started", name=config.name, folder=folder, config=config.as_dict()
            )
            _train(config, trainings, log)
    rows = {
        run.name: [log.rows(run.name, seed)[: config.rounds] for seed in config.seeds] for run in config.runs
    }
    target = config.target_accuracy
    tables = report.table([report.summarize(name, rows[name], processes[name].dense_bytes) for name in rows])
    if target:
        tables += "\n\n" + report.target_table(
            target, [report.reach(name, rows[name], target) for name in rows]
        )
    write_whole(folder / "table.txt", tables + "\n")
    report.plot(rows, folder / "accuracy.png", target)
    report.write_report([folder], folder / "report.html")
    print(f"\n{tables}\n\nplot: {folder / 'accuracy.png'}   metrics: {folder / 'metrics.jsonl'}")


def _train(config: ExperimentConfig, trainings: Sequence[_Training], log: MetricsLog) -> None:
    done = sum(min(each.trainer.last_round or 0, config.rounds) for each in trainings)
    total = config.rounds * len(trainings)
    if done:
        print(f"resuming after {done} of {total} rounds")
    width = max(len(each.run) for each in trainings)
    with tqdm(total=total, initial=done, unit="round", dynamic_ncols=True) as progress:
        for each in trainings:
            seed = f" seed {each.seed}" if config.repeats > 1 else ""
            progress.set_description(each.run.ljust(width) + seed)
            _train_one(each, config.rounds, log, progress)


def _train_one(training: _Training, rounds: int, log: MetricsLog, progress: Any) -> None:
    name, seed, trainer, evaluator = training

    def record(round_num: int, state: Any, metrics: Any, seconds: float | None) -> None:
        accuracy = evaluator.accuracy(state.global_model_weights)
        aggregated = metrics["aggregator"]
        loss = float(metrics["client_work"]["train"]["loss"])
        row = {
            "run": name,
            "seed": seed,
            "round": round_num,
            "test_accuracy": accuracy,
            "train_loss": loss if math.isfinite(loss) else None,  # JSON has no other numbers
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
        trainer.log_metrics(round_num, {"test_accuracy": accuracy})
        progress.set_postfix_str(f"accuracy {accuracy:.3f}", refresh=False)

    state = trainer.initialize()
    last = trainer.last_round or 0
    if last and not any(row["round"] == last for row in log.rows(name, seed)):
        record(last, state, trainer.last_metrics, None)  # interrupted between the commit and the log
    started = time.perf_counter()

    def on_round(round_num: int, state: Any, metrics: Any) -> None:
        nonlocal started
        record(round_num, state, metrics, time.perf_counter() - started)
        progress.update()
        started = time.perf_counter()

    trainer.run(rounds, on_round)


def _process(config: ExperimentConfig, run: RunConfig) -> StatefulClientsProcess:
    with _naming(run):
        return fedplug.process.build_weighted_fed_avg(
            task.model_fn(config.model, config.seed),
            _client_optimizer(config.client_optimizer, run.proximal_strength),
            _optimizer(config.server_optimizer),
            encoder=run.encoder,
            broadcast_encoder=run.broadcast_encoder or None,
            aggregator=run.aggregator,
            min_size=run.min_size,
            tensor_metrics=config.tensor_metrics,
        )


def _client_optimizer(config: OptimizerConfig, proximal_strength: float) -> Any:
    plain = _optimizer(config)
    return ProximalOptimizer(plain, proximal_strength) if proximal_strength else plain


@contextlib.contextmanager
def _naming(run: RunConfig) -> Iterator[None]:
    """Says of which run an error is."""
    try:
        yield
    except FedplugError as error:
        error.args = (f"run {run.name!r}: {error}",)
        raise


def _trainer(
    config: ExperimentConfig,
    seed: int,
    name: str,
    process: StatefulClientsProcess,
    clients: dict[str, Examples],
    store: Any,
) -> Trainer:
    return Trainer(
        process,
        task.client_datasets(config.data, clients, seed),
        store=store,
        process_id=f"{name} (seed {seed})",
        clients_per_round=config.clients_per_round,
        seed=seed,
        initial_weights=task.initial_weights(config.model, seed),
    )


def _optimizer(config: OptimizerConfig) -> Any:
    return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)


def _store_url(scheme: str, folder: Path) -> str:
    return "memory://" if scheme == "memory" else f"{scheme}:///{folder / 'state'}"


def _check_is_of(folder: Path, config: ExperimentConfig) -> None:
    """Raises when the folder holds another experiment."""
    wanted = config.as_dict()
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(f"{path} is not JSON ({error}); remove {folder} to start again") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path} holds no experiment; remove {folder} to start again")
    found = ExperimentConfig.from_dict(found, str(path)).as_dict()
    differing = sorted(key for key in wanted if key not in _MAY_CHANGE and wanted[key] != found[key])
    if differing:
        raise ConfigError(
            f"{folder} holds an experiment with other settings ({', '.join(differing)}); "
            f"give this one another name, or remove {folder}"
        )


def _claim(folder: Path, config: ExperimentConfig) -> None:
    """Makes the folder and writes down whose it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error
    write_whole(folder / "config.json", json.dumps(config.as_dict(), indent=2) + "\n")
