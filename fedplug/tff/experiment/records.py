"""The files that describe a folder's runs: settings, data, environments, components, tensors, metrics.

``config.json`` and ``data.json`` identify the experiment. ``metrics.jsonl`` has a line for each run, seed and
round, consistent with the store after interruptions.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedplug.encoders.model import tensor_metrics
from fedplug.errors import ConfigError, PluginError, StoreError, UnknownNameError
from fedplug.registry import provenance
from fedplug.stores.files import write_whole
from fedplug.tff.experiment.config import ExperimentConfig
from fedplug.tff.experiment.data.federated import Fingerprint
from fedplug.tff.experiment.display import Json
from fedplug.tff.process import StatefulClientsProcess

__all__ = [
    "Fingerprints",
    "MetricsLog",
    "Provenance",
    "check_data",
    "check_settings",
    "claim",
    "of_round",
    "record_environment",
    "write_model",
]

Fingerprints = Mapping[int, Fingerprint | None]
"""The fingerprint of the data of each seed. None if unknown."""

_MAY_CHANGE = ("rounds", "repeats", "runs", "target_accuracy", "tensor_metrics")
"""The settings on which no finished round depends. Runs may be added."""

_SINCE = "since"


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


def _changed_runs(wanted: Sequence[Mapping[str, Json]], there: Sequence[Mapping[str, Json]]) -> list[str]:
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


def _read(folder: Path, name: str) -> dict[str, Json] | None:
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


def record_environment(path: Path, environment: Mapping[str, Json]) -> None:
    """Appends the environment to the file, unless it equals the last entry.

    Args:
        path: The file, a JSON array of objects in the order of their use, created if missing.
        environment: JSON values by name. The current time is added as ``since``.

    Raises:
        StoreError: The file cannot be written.
    """
    found = _lenient(path)
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    if entries and {k: v for k, v in entries[-1].items() if k != _SINCE} == dict(environment):
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    write_whole(path, json.dumps([*entries, {_SINCE: now, **environment}], indent=2) + "\n")


def _lenient(path: Path) -> Json:
    """Reads JSON. Returns None if the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


class Provenance:
    """A JSON file with the records of every run, by run name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, runs: Mapping[str, list[dict[str, str]]]) -> None:
        """Writes the records.

        Raises:
            StoreError: The file cannot be written.
        """
        write_whole(self._path, json.dumps(runs, indent=2) + "\n")

    @contextlib.contextmanager
    def naming_what_is_missing(self, run: str) -> Iterator[None]:
        """Adds installation advice to errors about a missing component of a run.

        Raises:
            PluginError: A component is missing. Replaces the original error.
        """
        try:
            yield
        except (PluginError, UnknownNameError) as error:
            found = _lenient(self._path)
            hint = provenance.install_hint(found.get(run, []) if isinstance(found, dict) else [])
            if not hint:
                raise
            raise PluginError(f"{error}; {hint} ({self._path})") from error


class MetricsLog:
    """An append-only file of rows ``{"run": ..., "seed": ..., "round": ..., ...}``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, run: str, seed: int) -> list[dict[str, Json]]:
        """Returns the rows of a run with a seed, by round."""
        return [row for row in self._read() if (row["run"], row["seed"]) == (run, seed)]

    def append(self, row: dict[str, Json]) -> None:
        """Appends a row durably.

        Raises:
            StoreError: The file cannot be written.
        """
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error.strerror or error}") from error

    def keep_up_to(self, last_round: dict[tuple[str, int], int]) -> None:
        """Drops incomplete lines, and rows of rounds that the store does not hold.

        Args:
            last_round: The store's last round by run and seed. Rows of other runs are kept.

        Raises:
            StoreError: The file cannot be written.
        """
        kept = [
            row
            for row in self._read()
            if row["round"] <= last_round.get((row["run"], row["seed"]), row["round"])
        ]
        write_whole(self._path, "".join(json.dumps(row) + "\n" for row in kept))

    def _read(self) -> Iterator[dict[str, Json]]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return  # an interruption truncated the last line; its round is in the store or runs again


def write_model(path: Path, dense_bytes: int, tensors: Sequence[Mapping[str, Json]]) -> None:
    """Writes the description of an update to a file.

    It is ``{"dense_bytes": int, "tensors": [{"name", "shape", "dtype"}, ...]}``.

    The arguments are the attributes of a `StatefulClientsProcess`.

    Raises:
        StoreError: The file cannot be written.
    """
    model = {"dense_bytes": dense_bytes, "tensors": list(tensors)}
    write_whole(path, json.dumps(model, indent=2) + "\n")


def of_round(process: StatefulClientsProcess, aggregated: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the aggregator's tensor metrics, ``{"tensors": {name: {...}}}``. Empty if there are none."""
    if "tensors" not in aggregated:
        return {}
    names = [str(tensor["name"]) for tensor in process.tensors]
    return {"tensors": tensor_metrics.by_name(names, aggregated["tensors"])}
