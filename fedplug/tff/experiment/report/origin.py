"""The section on provenance: configurations, components with their versions, and machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from fedplug.tff.experiment.display import MISSING, Json
from fedplug.tff.experiment.report.blocks import Block, Table, Text
from fedplug.tff.experiment.report.folder import Experiment

__all__ = ["origin"]

_OF_PART = ("kind", "name", "distribution", "version")


def origin(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page."""
    return [
        *_compared("Configuration", "config.json", experiments, [_settings(e) for e in experiments]),
        Text("Runs", "heading"),
        *(_runs(experiment) for experiment in experiments),
        *_components(experiments),
        *_compared("Environment", "environment.json", experiments, [_environments(e) for e in experiments]),
    ]


def _compared(
    title: str, file: str, experiments: Sequence[Experiment], columns: Sequence[Mapping[str, str]]
) -> Iterator[Block]:
    """Yields a table with a column per experiment. Lines that differ are marked and come first."""
    yield Text(title, "heading")
    keys = list(dict.fromkeys(key for column in columns for key in column))
    if not keys:
        yield Text(f"There is no {file}.", "notice")
        return
    rows = [(key, *(column.get(key, MISSING) for column in columns)) for key in keys]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    same = [row for row in rows if row not in differing]
    names = [e.label for e in experiments] if len(experiments) > 1 else ["value"]
    caption = f"{title} of {', '.join(experiment.label for experiment in experiments)}"
    if differing:
        yield Text("Differences come first and are marked.")
    rows, marked, texts = [*differing, *same], range(len(differing)), range(len(names) + 1)
    yield Table(caption, ("key", *names), rows, marked=marked, texts=texts)


def _settings(experiment: Experiment) -> dict[str, str]:
    """Returns the configuration without its runs, flattened."""
    return dict(_flat({key: value for key, value in experiment.config.items() if key != "runs"}))


def _flat(table: Mapping[str, Json], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", _written(value)


def _written(value: Json) -> str:
    """Formats a value nearly as in the configuration file. Text has no quotes."""
    return (value or '""') if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _runs(experiment: Experiment) -> Block:
    found = experiment.config.get("runs")
    runs = [run for run in found if isinstance(run, dict)] if isinstance(found, list) else []
    if not runs:
        return Text(f"{experiment.label}: the configuration is unknown.", "notice")
    keys = [key for key in dict.fromkeys(key for run in runs for key in run) if key != "name"]
    rows = [
        (_written(run.get("name", "")), *(_written(run[key]) if key in run else MISSING for key in keys))
        for run in runs
    ]
    return Table(f"Runs of {experiment.label}", ("run", *keys), rows, texts=range(len(keys) + 1))


def _components(experiments: Sequence[Experiment]) -> Iterator[Block]:
    rows = [
        (label, *(str(part.get(key, "")) for key in _OF_PART))
        for label, parts in _parts(experiments)
        for part in parts
        if isinstance(part, dict)
    ]
    yield Text("Components", "heading")
    heads = ("run", "kind", "component", "distribution", "version")
    if rows:
        yield Table("Components of the runs", heads, rows, texts=range(len(heads)))
    else:
        yield Text("There is no provenance.json.", "notice")


def _parts(experiments: Sequence[Experiment]) -> Iterator[tuple[str, list[Json]]]:
    for experiment in experiments:
        for run, parts in experiment.components.items():
            if isinstance(parts, list):
                yield (f"{experiment.label}: {run}" if len(experiments) > 1 else run), parts


def _environments(experiment: Experiment) -> dict[str, str]:
    """Returns the last environment; a value that changed is shown with its earlier values."""
    keys = dict.fromkeys(key for entry in experiment.environments for key in entry)
    return {
        key: ", then ".join(dict.fromkeys(_written(e[key]) for e in experiment.environments if key in e))
        for key in keys
    }
