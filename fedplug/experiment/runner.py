"""Runs an experiment: every run through `fedplug.Trainer`, resumable after every round.

Knows all parts by their public faces only.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.errors import ConfigError, FedplugError, StoreError
from fedplug.experiment import report, task
from fedplug.experiment.config import ExperimentConfig, OptimizerConfig, RunConfig
from fedplug.experiment.digits import FederatedImages, load_digits
from fedplug.experiment.made_of import MadeOf
from fedplug.experiment.metrics_log import MetricsLog
from fedplug.process import StatefulClientsProcess
from fedplug.process.parts import as_encoder
from fedplug.trainer import Trainer

__all__ = ["run_experiment"]


def run_experiment(config: ExperimentConfig, runs_dir: Path) -> None:
    """Runs or resumes an experiment in ``runs_dir/<name>/`` and reports.

    The folder holds ``config.json``, ``made_of.json``, ``metrics.jsonl``, ``table.txt``, ``accuracy.png`` and
    ``state/``, the store.

    Raises:
        ConfigError: The folder holds an experiment with other settings, an encoder is not valid or does not
            fit the model, or scikit-learn or matplotlib is missing.
        PluginError: A part that an earlier run of this folder was made with is not installed any more.
        StoreError: The folder cannot be written, or its store is damaged.
    """
    folder = runs_dir / config.name
    made_of = MadeOf(folder / "made_of.json")
    for run in config.runs:
        with _naming(run), made_of.naming_what_is_missing(run.name):
            as_encoder(run.encoder)
            as_encoder(run.broadcast_encoder or "identity")
            fedplug.aggregator(run.aggregator)
    report.require_matplotlib()
    _check_is_of(folder, config)
    images = load_digits(config.data, config.seed)
    with fedplug.use_runtime(config.runtime):
        processes = {run.name: _process(config, run) for run in config.runs}
        # The store first: it may be unknown, or in use by another run of this folder.
        with fedplug.open_store(_store_url(config.store, folder)) as store:
            _claim(folder, config)
            made_of.write({name: process.made_of for name, process in processes.items()})
            log = MetricsLog(folder / "metrics.jsonl")
            trainers = {
                name: _trainer(config, name, process, images, store) for name, process in processes.items()
            }
            log.keep_up_to({name: trainer.last_round or 0 for name, trainer in trainers.items()})
            _train(config, trainers, task.Evaluator(config, images.test), log)
    dense_bytes = {name: process.dense_bytes for name, process in processes.items()}
    summaries = [report.summarize(run.name, log.rows(run.name), dense_bytes[run.name]) for run in config.runs]
    table = report.table(summaries)
    (folder / "table.txt").write_text(table + "\n", encoding="utf-8")
    report.plot({run.name: log.rows(run.name) for run in config.runs}, folder / "accuracy.png")
    print(f"\n{table}\n\nplot: {folder / 'accuracy.png'}   metrics: {folder / 'metrics.jsonl'}")


def _train(
    config: ExperimentConfig, trainers: Mapping[str, Trainer], evaluator: task.Evaluator, log: MetricsLog
) -> None:
    done = sum(trainer.last_round or 0 for trainer in trainers.values())
    total = config.rounds * len(trainers)
    if done:
        print(f"resuming after {done} of {total} rounds")
    width = max(len(name) for name in trainers)
    with tqdm(total=total, initial=done, unit="round", dynamic_ncols=True) as progress:
        for name, trainer in trainers.items():
            progress.set_description(name.ljust(width))
            _train_one(name, trainer, config.rounds, evaluator, log, progress)


def _train_one(
    name: str, trainer: Trainer, rounds: int, evaluator: task.Evaluator, log: MetricsLog, progress: Any
) -> None:
    def record(round_num: int, state: Any, metrics: Any, seconds: float | None) -> None:
        accuracy = evaluator.accuracy(state.global_model_weights)
        aggregated = metrics["aggregator"]
        loss = float(metrics["client_work"]["train"]["loss"])
        row = {
            "run": name,
            "round": round_num,
            "test_accuracy": accuracy,
            "train_loss": loss if math.isfinite(loss) else None,  # JSON has no other numbers
            "uplink_bytes": int(aggregated["uplink_bytes"]),
            "downlink_bytes": int(metrics["distributor"]["downlink_bytes"]),
            "clients": int(aggregated["clients"]),
            "payloads": int(aggregated["payloads"]),
            "nonfinite_updates": int(aggregated["nonfinite_updates"]),
            "seconds": seconds,
        }
        log.append(row)
        progress.set_postfix_str(f"accuracy {accuracy:.3f}", refresh=False)

    state = trainer.initialize()
    last = trainer.last_round or 0
    if last and not any(row["round"] == last for row in log.rows(name)):
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
            _optimizer(config.client_optimizer),
            _optimizer(config.server_optimizer),
            encoder=run.encoder,
            broadcast_encoder=run.broadcast_encoder or None,
            aggregator=run.aggregator,
            min_size=run.min_size,
        )


@contextlib.contextmanager
def _naming(run: RunConfig) -> Iterator[None]:
    """Says of which run an error is."""
    try:
        yield
    except FedplugError as error:
        error.args = (f"run {run.name!r}: {error}",)
        raise


def _trainer(
    config: ExperimentConfig, name: str, process: StatefulClientsProcess, images: FederatedImages, store: Any
) -> Trainer:
    return Trainer(
        process,
        task.client_datasets(config, images.clients),
        store=store,
        process_id=name,
        clients_per_round=config.clients_per_round,
        seed=config.seed,
    )


def _optimizer(config: OptimizerConfig) -> Any:
    return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum or None)


def _store_url(scheme: str, folder: Path) -> str:
    return "memory://" if scheme == "memory" else f"{scheme}:///{folder / 'state'}"


def _check_is_of(folder: Path, config: ExperimentConfig) -> None:
    """Raises when the folder holds another experiment; the rounds may differ."""
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
    differing = sorted(key for key in wanted | found if wanted.get(key) != found.get(key) and key != "rounds")
    if differing:
        raise ConfigError(
            f"{folder} holds an experiment with other settings ({', '.join(differing)}); "
            f"give this one another name, or remove {folder}"
        )


def _claim(folder: Path, config: ExperimentConfig) -> None:
    """Makes the folder and writes down whose it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(config.as_dict(), indent=2) + "\n"
        (folder / "config.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error
