"""Experiments: runs of federated averaging, described by a TOML file and compared in a table and a plot.

`fedplug run CONFIG` is a thin wrapper around `main`. Everything of general use is in the rest of the library.
This package reads the file, drives `fedplug.tff.training.Trainer` and reports.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from fedplug.errors import ConfigError, MissingDependencyError

__all__ = ["main"]


def main(
    config_paths: str | Path | Sequence[str | Path],
    runs_dir: str | Path = "runs",
    *,
    settings: Sequence[str] = (),
    only: Sequence[str] = (),
    jobs: int = 1,
) -> None:
    """Runs or resumes the experiments of configuration files, prints a table and writes ``runs_dir/<name>/``.

    Args:
        config_paths: One configuration file, or several.
        runs_dir: The folder of the results.
        settings: Values that override those in the files, such as ``"data.clients=10"``.
        only: Patterns of names of runs to train, such as ``"top-k*"``. All runs by default.
        jobs: Number of trainings to run in parallel. The results do not depend on it. They run on the CPU,
            and TensorFlow sees no GPU in this process afterwards.

    Raises:
        FedplugError: A file, a value in it or the state of an earlier run is invalid, or TFF is not
            installed. The message is one line for the user.
    """
    from fedplug.tff.experiment.config import load_config, selected_runs

    paths = [config_paths] if isinstance(config_paths, str | Path) else list(config_paths)
    if jobs < 1:
        raise ConfigError(f"--jobs is {jobs}; it must be at least 1")
    # Before TensorFlow is imported, so that mistakes are reported at once.
    configs = [load_config(path, settings) for path in paths]
    chosen = selected_runs(configs, only)
    if importlib.util.find_spec("tensorflow_federated") is None:
        raise MissingDependencyError("training", "tensorflow_federated")

    for config, runs in zip(configs, chosen, strict=True):
        trainings = len(runs) * config.repeats
        if trainings:
            print(f"{config.name}: {trainings} times {config.rounds} rounds; setting up", flush=True)
    from fedplug.tff.experiment.jobs import run_experiments
    from fedplug.tff.experiment.runner import Plan
    from fedplug.tff.runtime.graphs.devices import hide_gpus

    hide_gpus()
    plans = [
        Plan(config, Path(path).absolute().parent, Path(runs_dir).absolute() / config.name, runs)
        for path, config, runs in zip(paths, configs, chosen, strict=True)
        if runs
    ]
    run_experiments(plans, jobs)
