"""``source = "csv"``: a table with a header and one line per example. One column has the labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.tff.experiment.data.federated import Array, Pooled
from fedplug.tff.experiment.data.npz import as_pooled

__all__ = ["load_csv"]


def load_csv(path: Path, label: str, client: str) -> Pooled:
    """Reads a table. Every column except label and client is a feature.

    Args:
        path: The file, in UTF-8, with the column names in the first line.
        label: The column of labels: whole numbers from 0 or text. Other numbers are values to predict.
        client: The column of the clients' ids. Empty if there is none.

    Raises:
        ConfigError: The file cannot be read, a column is missing, or a feature is not a number.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, [])
            # An example may span several lines if its text is quoted.
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not a table of comma-separated values in UTF-8: {error}") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path} has the column {twice[0]!r} twice; names must be different")
    for key, name in (("label_column", label), ("client_column", client)):
        if name and name not in names:
            raise UnknownNameError("column", name, names, where=str(path), note=f"the key {key} of [data]")
    for line, row in rows:
        if len(row) != len(names):
            raise ConfigError(
                f"{path}, line {line} has {len(row)} cells; it must have {len(names)}, like the header"
            )
    if not rows:
        raise ConfigError(f"{path} has no line after its header; it must have one for every example")
    features = [name for name in names if name not in (label, client)]
    if not features:
        raise ConfigError(f"{path} has no columns except {', '.join(names)}; it must have features")
    columns = dict(zip(names, zip(*(row for _, row in rows), strict=True), strict=True))
    lines = [line for line, _ in rows]
    arrays = {
        "x": np.stack([_numbers(path, name, columns[name], lines) for name in features], axis=1),
        "y": _labels(columns[label]),
    }
    if client:
        arrays["client"] = np.array(columns[client])
    return as_pooled(arrays, str(path))


def _numbers(path: Path, name: str, cells: Sequence[str], lines: Sequence[int]) -> Array:
    values = np.empty(len(cells), np.float32)
    for i, (line, cell) in enumerate(zip(lines, cells, strict=True)):
        try:
            values[i] = float(cell)
        except ValueError as error:
            raise ConfigError(
                f"{path}, line {line}: {name} is {cell!r}; it must be a number, like every column except "
                "label and client"
            ) from error
    return values


def _labels(cells: Sequence[str]) -> Array:
    """Returns whole numbers if all cells are, else numbers if all are, else text."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(cells).astype(kind)
        except ValueError:
            continue
    return np.array(cells)
