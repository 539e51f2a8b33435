"""The identity of a folder: the settings and data of its rounds, in ``config.json`` and ``data.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedplug.errors import ConfigError, StoreError
from fedplug.stores.files import write_whole
from fedplug.tff.experiment.config import ExperimentConfig
from fedplug.tff.experiment.data.fingerprint import Fingerprint

__all__ = ["Fingerprints", "check_data", "check_settings", "claim"]

Fingerprints = Mapping[int, Fingerprint | None]
"""The fingerprint of the data of each seed. None if unknown."""

_MAY_CHANGE = ("rounds", "repeats", "runs", "target_accuracy", "tensor_metrics")
"""The settings on which no finished round depends. Runs may be added."""


def check_settings(folder: Path, config: ExperimentConfig) -> None:
    """Checks that the folder is new, or of an experiment with these settings.

    Raises:
        ConfigError: The folder holds another experiment.
        StoreError: The folder cannot be read.
    """
    found = _read(folder, "config.json")
    if found is None:
        return
    there = ExperimentConfig.from_dict(found, str(folder / "config.json")).as_dict()
    wanted = config.as_dict()
    differing = sorted(key for key in wanted if key not in _MAY_CHANGE and wanted[key] != there[key])
    differing += _changed_runs(wanted["runs"], there["runs"])
    if differing:
        raise ConfigError(
            f"{folder} holds an experiment with other settings ({', '.join(differing)}); "
            f"give this one another name, or remove {folder}"
        )


def check_data(folder: Path, fingerprints: Fingerprints) -> None:
    """Checks that the rounds in the folder were made with these data, as far as that is known.

    Raises:
        ConfigError: The rounds were made with other data.
        StoreError: The folder cannot be read.
    """
    there = _known(folder)
    for seed, now in fingerprints.items():
        then = there.get(seed, now)
        if then and now and then != now:
            raise ConfigError(
                f"the rounds in {folder} were made with other data: {_told(then)} then, {_told(now)} now; "
                f"restore the old data, give this experiment another name, or remove {folder}"
            )


def claim(folder: Path, config: ExperimentConfig, fingerprints: Fingerprints) -> None:
    """Creates the folder and records the settings and the data.

    Raises:
        StoreError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error
    known = _known(folder) | {seed: found for seed, found in fingerprints.items() if found}
    write_whole(folder / "config.json", json.dumps(config.as_dict(), indent=2) + "\n")
    if known:
        by_seed = {str(seed): found._asdict() for seed, found in sorted(known.items())}
        write_whole(folder / "data.json", json.dumps(by_seed, indent=2) + "\n")


def _changed_runs(wanted: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the runs in the folder whose configuration has changed. New runs may be added."""
    return [f"run {run['name']!r}" for run in there if run not in wanted]


def _known(folder: Path) -> dict[int, Fingerprint]:
    found = _read(folder, "data.json") or {}
    try:
        return {int(seed): Fingerprint(**entry) for seed, entry in found.items()}
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{folder / 'data.json'} has no valid fingerprints of data ({error}); remove it to go on without"
        ) from error


def _told(fingerprint: Fingerprint) -> str:
    clients, examples, digest = fingerprint
    return f"{clients} clients with {examples} examples (sha256 {digest[:12]})"


def _read(folder: Path, name: str) -> dict[str, Any] | None:
    """Reads a JSON object. Returns None if the file is missing."""
    path = folder / name
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not JSON ({error}); remove {folder} to start again") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path} is not an experiment's; remove {folder} to start again")
    return found
