"""Experiments: several runs of federated averaging, described by a TOML file, compared in a table and a plot.

`fedplug run CONFIG` is a thin wrapper around `main`. Everything a user could need elsewhere is in the
library; here is only what reads the file, drives `fedplug.Trainer` and reports.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fedplug.errors import MissingDependencyError

__all__ = ["main"]


def main(config_path: str | Path, runs_dir: str | Path = "runs") -> None:
    """Runs, or resumes, the experiment of a configuration file; prints a table; writes ``runs_dir/<name>/``.

    Raises:
        FedplugError: With one line for the user: the file, a value in it, or the state of an earlier run is
            not right, or TFF is not installed.
    """
    from fedplug.experiment.config import load_config

    config = load_config(config_path)  # before TensorFlow is imported: mistakes show at once
    if importlib.util.find_spec("tensorflow_federated") is None:
        raise MissingDependencyError("training", "tensorflow_federated")

    trainings = len(config.runs) * config.repeats
    print(f"{config.name}: {trainings} times {config.rounds} rounds; setting up", flush=True)
    from fedplug.experiment.runner import run_experiment

    run_experiment(config, Path(runs_dir))
