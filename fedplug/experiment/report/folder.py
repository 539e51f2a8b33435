"""Reads the folder of an experiment, also while it is being written, and whatever version wrote it.

Lenient where a file or a key is missing, since older versions wrote less; what is damaged is an error. Must
not import TensorFlow, and does not know what may be in a configuration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedplug.errors import ConfigError, StoreError
from fedplug.experiment.metric import ACCURACY, shown_of
from fedplug.experiment.report.targets import Rows
from fedplug.experiment.watching import existing

__all__ = ["Experiment", "Run", "read_experiments"]

_COUNTS = {"round": 1, "uplink_bytes": 0, "downlink_bytes": 0, "clients": 1, "payloads": 0}
"""What every row has, and the least that each can be."""

_LESS_IS_BETTER = ("loss", "error", "perplexity")


@dataclass(frozen=True)
class Run:
    """A run with all of its seeds.

    Attributes:
        name: As it is in the configuration.
        label: The name, and the experiment's before it where there are several.
        seeds: Of ``repeats``.
        repeats: The rows with each of the seeds, at least one each. Every row has ``test_accuracy``, NaN
            before the first that was measured, and the counts of bytes, clients and payloads.
        uncompressed: Whether it sends all there is, both ways: what the others are compared with.
    """

    name: str
    label: str
    seeds: tuple[int, ...]
    repeats: tuple[Rows, ...]
    uncompressed: bool


@dataclass(frozen=True)
class Experiment:
    """What a folder holds.

    Attributes:
        label: Its name; where several have the same, its path.
        runs: Those with at least one round, in the order of the configuration.
        waiting: The names of those that have not begun.
        metric: The key of the rows that ``test_accuracy`` was taken from; empty if there was none.
        more_is_better: Of that metric, by its name.
        dense_bytes: Of one update without any encoding; None if it is not known.
        tensors: Their names, in the order of the model; empty if they are not known.
        config: As it was written.
        components: Of every run, with distributions and versions.
        environments: Where the runs were made, one after the other.
    """

    label: str
    runs: tuple[Run, ...]
    waiting: tuple[str, ...]
    metric: str
    more_is_better: bool
    dense_bytes: int | None
    tensors: tuple[str, ...]
    config: Mapping[str, Any]
    components: Mapping[str, Any]
    environments: Sequence[Mapping[str, Any]]

    @property
    def names(self) -> Sequence[str]:
        """Names of all runs of the configuration, begun or not, in its order."""
        return list(_settings(self.config)) or [run.name for run in self.runs]

    @property
    def target(self) -> float:
        """The ``target_accuracy`` of the configuration; 0 for none."""
        return _finite(self.config.get("target_accuracy")) or 0.0

    @property
    def rounds(self) -> int | None:
        """Of every run, as configured; None if that is not known."""
        return _whole(self.config.get("rounds"))


def read_experiments(folders: Sequence[Path]) -> list[Experiment]:
    """Reads folders that are to be compared.

    Raises:
        ConfigError: A folder is not there, or holds no metrics, or there is none or one twice.
        StoreError: A file cannot be read, or is damaged.
    """
    if not folders:
        raise ConfigError("name at least one folder of an experiment")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("the same folder is named twice; name each once")
    configs = [_object(folder, "config.json") if _is_there(folder) else {} for folder in folders]
    names = [
        str(config.get("name") or folder.resolve().name)
        for folder, config in zip(folders, configs, strict=True)
    ]
    labels = [
        name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)
    ]
    return [
        _read(folder, config, label, several=len(folders) > 1)
        for folder, config, label in zip(folders, configs, labels, strict=True)
    ]


def _is_there(folder: Path) -> bool:
    """True, or an error that says what is not there."""
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {folder}; name one that `fedplug run` wrote, as in runs/digits"
            f"{existing(folder)}"
        )
    if not (folder / "metrics.jsonl").exists():
        raise ConfigError(
            f"{folder} has no metrics.jsonl: it is no experiment's folder, or no round has ended yet"
            f"{existing(folder)}"
        )
    return True


def _read(folder: Path, config: Mapping[str, Any], label: str, *, several: bool) -> Experiment:
    found = _by_run(_rows(folder / "metrics.jsonl"), _whole(config.get("rounds")))
    if not found:
        raise ConfigError(f"{folder / 'metrics.jsonl'} is empty: no round has ended yet")
    settings = _settings(config)
    names = [name for name in settings if name in found] or list(found)
    metric = shown_of(_keys(found)) or ""
    wanted = _seeds(config)
    runs = []
    for name in names:
        by_seed = {seed: rows for seed, rows in sorted(found[name].items()) if not wanted or seed in wanted}
        if by_seed:
            runs.append(
                Run(
                    name=name,
                    label=f"{label}: {name}" if several else name,
                    seeds=tuple(by_seed),
                    repeats=tuple(_measured(rows, metric) for rows in by_seed.values()),
                    uncompressed=_is_uncompressed(settings.get(name, {})),
                )
            )
    if not runs:
        raise ConfigError(f"{folder / 'metrics.jsonl'} has no row with a seed of {folder / 'config.json'}")
    model = _object(folder, "model.json")
    tensors = [tensor for tensor in _list(model.get("tensors")) if isinstance(tensor, dict)]
    return Experiment(
        label=label,
        runs=tuple(runs),
        waiting=tuple(name for name in settings if name not in found),
        metric=metric,
        more_is_better=not any(word in metric for word in _LESS_IS_BETTER),
        dense_bytes=_whole(model.get("dense_bytes")),
        tensors=tuple(str(tensor.get("name")) for tensor in tensors),
        config=config,
        components=_object(folder, "provenance.json"),
        environments=[entry for entry in _array(folder, "environment.json") if isinstance(entry, dict)],
    )


def _settings(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Settings of the configured runs, by name."""
    runs = [run for run in _list(config.get("runs")) if isinstance(run, dict) and "name" in run]
    return {str(run["name"]): run for run in runs}


def _keys(found: Mapping[str, Mapping[int, Rows]]) -> Iterator[str]:
    """Those of all rows; one may be there several times."""
    return (key for by_seed in found.values() for rows in by_seed.values() for row in rows for key in row)


def _is_uncompressed(settings: Mapping[str, Any]) -> bool:
    plain = ("identity", "identity()")
    return settings.get("encoder", "") in plain and settings.get("broadcast_encoder", "") in ("", *plain)


def _seeds(config: Mapping[str, Any]) -> range:
    """Those of the configuration; empty if it does not say."""
    seed, repeats = _whole(config.get("seed")), _whole(config.get("repeats"))
    return range(0) if seed is None or repeats is None else range(seed, seed + repeats)


def _by_run(rows: Iterator[dict[str, Any]], rounds: int | None) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """The rows by run and seed, of the first ``rounds``, each round once."""
    found: dict[str, dict[int, dict[int, dict[str, Any]]]] = {}
    for row in rows:
        if rounds is None or row["round"] <= rounds:
            found.setdefault(row["run"], {}).setdefault(row["seed"], {})[row["round"]] = row
    return {
        run: {seed: [by_round[i] for i in sorted(by_round)] for seed, by_round in by_seed.items()}
        for run, by_seed in found.items()
    }


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the metrics log; its last line may be half written while an experiment goes on."""
    lines = _text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise StoreError(f"{path}, line {number}, is not JSON ({error})") from error
        if not isinstance(row, dict) or not isinstance(row.get("run"), str):
            raise StoreError(f"{path}, line {number}, is not a row of metrics: it names no run")
        for key, least in _COUNTS.items():
            value = _whole(row.get(key))
            if value is None or value < least:
                raise StoreError(
                    f"{path}, line {number}: {key} is {row.get(key)!r}; it must be "
                    f"a whole number of at least {least}"
                )
        yield {
            **row,
            "seed": _whole(row.get("seed")) or 0,
            "seconds": _finite(row.get("seconds")),
            "nonfinite_updates": _whole(row.get("nonfinite_updates")) or 0,
        }


def _measured(rows: Rows, metric: str) -> Rows:
    """With an accuracy in every row: where none was measured, the last that was."""
    last, result = math.nan, []
    for row in rows:
        value = _finite(row.get(metric))
        last = last if value is None else value
        result.append({**row, ACCURACY: last})
    return result


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} is not text in UTF-8: {error}") from error


def _json(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return json.loads(_text(path))
    except ValueError as error:
        raise StoreError(f"{path} is not JSON ({error})") from error


def _object(folder: Path, name: str) -> dict[str, Any]:
    found = _json(folder / name)
    return found if isinstance(found, dict) else {}


def _array(folder: Path, name: str) -> list[Any]:
    return _list(_json(folder / name))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None
