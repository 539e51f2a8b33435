"""Experiments: several runs of federated averaging, described by a TOML file, compared in a table and a plot.

`fedplug run CONFIG` is a thin wrapper around `main`. Everything a user could need elsewhere is in the
library; here is only what reads the file, drives `fedplug.Trainer` and reports.
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
    """Runs, or resumes, the experiments of configuration files; prints a table; writes ``runs_dir/<name>/``.

    Args:
        config_paths: A file, or several.
        runs_dir: Where the results go.
        settings: Values in place of those in the files, such as ``"data.clients=10"``.
        only: Patterns of the names of runs, such as ``"top-k*"``; the others are not trained. None: all are.
        jobs: How many trainings go on at once; the results are the same.

    Raises:
        FedplugError: With one line for the user: the file, a value in it, or the state of an earlier run is
            not right, or TFF is not installed.
    """
    from fedplug.experiment.config import load_config, selected_runs

    paths = [config_paths] if isinstance(config_paths, str | Path) else list(config_paths)
    if jobs < 1:
        raise ConfigError(f"--jobs is {jobs}; it must be at least 1")
    # Before TensorFlow is imported: mistakes show at once.
    configs = [load_config(path, settings) for path in paths]
    chosen = selected_runs(configs, only)
    if importlib.util.find_spec("tensorflow_federated") is None:
        raise MissingDependencyError("training", "tensorflow_federated")

    for config, runs in zip(configs, chosen, strict=True):
        trainings = len(runs) * config.repeats
        if trainings:
            print(f"{config.name}: {trainings} times {config.rounds} rounds; setting up", flush=True)
    from fedplug.experiment.runner import Plan
    from fedplug.experiment.schedule import run_experiments

    plans = [
        Plan(config, Path(path).parent, Path(runs_dir) / config.name, runs)
        for path, config, runs in zip(paths, configs, chosen, strict=True)
        if runs
    ]
    run_experiments(plans, jobs)
