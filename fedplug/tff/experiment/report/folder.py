"""Reads the folder of an experiment, also while another process writes it.

Missing files and keys are allowed, because a running experiment writes them later. Damaged ones are errors.
This module does not import TensorFlow and does not validate configurations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedplug.errors import ConfigError, StoreError
from fedplug.tff.experiment.display import ACCURACY, Json, shown_of

__all__ = ["Experiment", "Rows", "Run", "read_experiments"]

Rows = Sequence[Mapping[str, Json]]
"""The rows of a run with one seed, by round."""

_COUNTS = {"round": 1, "uplink_bytes": 0, "downlink_bytes": 0, "clients": 1, "payloads": 0}
"""The counts in every row, with their minimums."""

_LISTED = 12
"""The maximum number of experiments in a message."""

_LESS_IS_BETTER = ("loss", "error", "perplexity")


@dataclass(frozen=True)
class Run:
    """A run with all of its seeds.

    Attributes:
        name: The name in the configuration.
        label: The name, preceded by the experiment's label if there are several experiments.
        seeds: The seeds of ``repeats``.
        repeats: The rows of each seed, at least one each. Every row has ``test_accuracy``, which is NaN
            before the first measurement, and the counts of bytes, clients and payloads.
        uncompressed: Whether it sends everything uncompressed in both directions, as the base of comparisons.
    """

    name: str
    label: str
    seeds: tuple[int, ...]
    repeats: tuple[Rows, ...]
    uncompressed: bool


@dataclass(frozen=True)
class Experiment:
    """The contents of an experiment's folder.

    Attributes:
        label: The name. The path if several experiments have the same name.
        runs: The runs with at least one round, in the order of the configuration.
        waiting: The names of runs that have not begun.
        metric: The key of the row's value that became ``test_accuracy``. Empty if there was none.
        more_is_better: Whether higher values of the metric are better, by its name.
        dense_bytes: Size of one uncompressed update in bytes. None if unknown.
        tensors: The names of the tensors, in the order of the model. Empty if unknown.
        config: The configuration as written.
        components: The components of every run, with distributions and versions.
        environments: The environments of the runs, in order.
        configured: Whether each configured run, begun or not, sends everything uncompressed, by label.
    """

    label: str
    runs: tuple[Run, ...]
    waiting: tuple[str, ...]
    metric: str
    more_is_better: bool
    dense_bytes: int | None
    tensors: tuple[str, ...]
    config: Mapping[str, Json]
    components: Mapping[str, Json]
    environments: Sequence[Mapping[str, Json]]
    configured: Mapping[str, bool]

    @property
    def target(self) -> float:
        """The configured ``target_accuracy``; 0 for none."""
        return _finite(self.config.get("target_accuracy")) or 0.0

    @property
    def rounds(self) -> int | None:
        """The configured number of rounds of every run. None if unknown."""
        return _whole(self.config.get("rounds"))


def read_experiments(folders: Sequence[Path]) -> list[Experiment]:
    """Reads the folders of experiments to compare.

    Raises:
        ConfigError: There is no folder, or a folder is missing, has no metrics or is named twice.
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
    """Returns True. Raises `ConfigError` if the folder or its metrics are missing."""
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {folder}; name one that `fedplug run` wrote, such as runs/digits"
            f"{_existing(folder)}"
        )
    if not (folder / "metrics.jsonl").exists():
        raise ConfigError(
            f"{folder} has no metrics.jsonl: it is not an experiment's folder, or no round has finished yet"
            f"{_existing(folder)}"
        )
    return True


def _existing(folder: Path) -> str:
    """Returns a list of existing experiments, for the end of a message about a folder that has none.

    It looks into the folder, its parent and, unless the folder is absolute, ``runs``.
    """
    places = (folder, folder.parent, *(() if folder.is_absolute() else (Path("runs"),)))
    logs = dict.fromkeys(path for place in places for path in sorted(place.glob("*/metrics.jsonl")))
    found = [str(path.parent) for path in logs]
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"; there are: {', '.join(found[:_LISTED])}{more}" if found else ""


def _read(folder: Path, config: Mapping[str, Json], label: str, *, several: bool) -> Experiment:
    found = _by_run(_rows(folder / "metrics.jsonl"), _whole(config.get("rounds")))
    if not found:
        raise ConfigError(f"{folder / 'metrics.jsonl'} is empty: no round has finished yet")
    settings = _settings(config)
    names = [name for name in settings if name in found] or list(found)
    metric = shown_of(_keys(found)) or ""
    wanted = _seeds(config)
    before = f"{label}: " if several else ""
    runs = []
    for name in names:
        by_seed = {seed: rows for seed, rows in sorted(found[name].items()) if not wanted or seed in wanted}
        if by_seed:
            runs.append(
                Run(
                    name=name,
                    label=before + name,
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
        configured={before + name: _is_uncompressed(settings.get(name, {})) for name in settings or found},
    )


def _settings(config: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    """Returns the settings of the configured runs, by name."""
    runs = [run for run in _list(config.get("runs")) if isinstance(run, dict) and "name" in run]
    return {str(run["name"]): run for run in runs}


def _keys(found: Mapping[str, Mapping[int, Rows]]) -> Iterator[str]:
    """Yields the keys of all rows, possibly several times."""
    return (key for by_seed in found.values() for rows in by_seed.values() for row in rows for key in row)


def _is_uncompressed(settings: Mapping[str, Json]) -> bool:
    plain = ("identity", "identity()")
    return settings.get("encoder", "") in plain and settings.get("broadcast_encoder", "") in ("", *plain)


def _seeds(config: Mapping[str, Json]) -> range:
    """Returns the configured seeds. Empty if unknown."""
    seed, repeats = _whole(config.get("seed")), _whole(config.get("repeats"))
    return range(0) if seed is None or repeats is None else range(seed, seed + repeats)


def _by_run(
    rows: Iterator[dict[str, Json]], rounds: int | None
) -> dict[str, dict[int, list[dict[str, Json]]]]:
    """Returns the rows of the first ``rounds`` by run and seed, each round once."""
    found: dict[str, dict[int, dict[int, dict[str, Json]]]] = {}
    for row in rows:
        if rounds is None or row["round"] <= rounds:
            found.setdefault(row["run"], {}).setdefault(row["seed"], {})[row["round"]] = row
    return {
        run: {seed: [by_round[i] for i in sorted(by_round)] for seed, by_round in by_seed.items()}
        for run, by_seed in found.items()
    }


def _rows(path: Path) -> Iterator[dict[str, Json]]:
    """Yields the rows of the metrics log. An incomplete last line is ignored while an experiment runs."""
    lines = _text(path).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            raise StoreError(f"{path}, line {number}, is not JSON ({error})") from error
        if not isinstance(row, dict) or not isinstance(row.get("run"), str):
            raise StoreError(f"{path}, line {number}, is not a row of metrics: it has no name of a run")
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
    """Returns rows with an accuracy each; a row without a measurement has the last one before it."""
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


def _json(path: Path) -> Json:
    if not path.exists():
        return None
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not JSON ({error})") from error


def _object(folder: Path, name: str) -> dict[str, Json]:
    found = _json(folder / name)
    return found if isinstance(found, dict) else {}


def _array(folder: Path, name: str) -> list[Json]:
    return _list(_json(folder / name))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: Json) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None
