"""The data sources of a configuration: ``"npz"``, ``"csv"``, ``"digits"``, ``"synthetic"``, and functions.

``source = "package.module:function"`` calls a user's function with the keys of ``[data.arguments]`` as
keyword arguments. If it has parameters of these names, it also gets ``seed``, ``path``, ``batch_size`` and
``epochs``. It returns one of two values:

- Arrays by name, as in a file of ``source = "npz"``: ``{"x": ..., "y": ...}``, optionally with ``"client"``,
  ``"x_test"`` and ``"y_test"``. ``[data]`` determines their division among clients.
- `FederatedData`, or ``{"clients": ..., "test": ...}``. Each client has a pair ``(x, y)`` of arrays, a
  `tf.data.Dataset` of batches, or a function from the round number to one of the two. The test examples are
  arrays or a `tf.data.Dataset` of batches. ``[data]`` determines the shuffling and batching of arrays.
  Datasets are used unchanged: if they differ between calls for a round, a resumed run gets other results. The
  model receives the batches' own types: for arrays a pair, see `as_examples`; for datasets their
  ``element_spec``.

This module does not import TensorFlow. It checks only arrays.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedplug.errors import ConfigError, MissingDependencyError, UnknownNameError
from fedplug.tff.experiment import imports
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.federated import (
    Array,
    Examples,
    FederatedData,
    Given,
    Pooled,
    as_examples,
    as_pooled,
)

__all__ = ["load_csv", "load_digits", "load_function", "load_synthetic"]

_FEATURES = 60
_CLASSES = 10


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


def load_digits(config: DataConfig, seed: int) -> Pooled:
    """Loads scikit-learn's handwritten digits, with a stratified test set.

    Source: Alpaydin & Kaynak, "Optical Recognition of Handwritten Digits", UCI repository, 1998.

    Returns:
        Images ``float32[n, 8, 8, 1]`` with values in [0, 1], and labels ``int32[n]``.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits as load
        from sklearn.model_selection import train_test_split
    except ModuleNotFoundError as error:
        raise MissingDependencyError("the digits data", error.name or "") from error
    data = load()
    images = (data.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = data.target.astype(np.int32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=config.test_fraction, random_state=seed, stratify=labels
    )
    return Pooled(Examples(train_x, train_y), test=Examples(test_x, test_y))


def load_synthetic(clients: int, alpha: float, beta: float, seed: int) -> Pooled:
    """Draws the examples of all clients.

    Args:
        clients: Number of clients.
        alpha: Standard deviation between the clients' models, at least 0.
        beta: Standard deviation between the clients' inputs, at least 0.
        seed: The seed of the random draw.

    Returns:
        Inputs ``float32[n, 60]``, labels ``int32[n]``, and the client of each example.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.lognormal(4, 2, clients).astype(int) + 50
    models = generator.normal(0, alpha, clients)
    inputs = generator.normal(0, beta, clients)
    scale = np.arange(1, _FEATURES + 1) ** -0.6  # the square root of Sigma's diagonal
    x, y = [], []
    for size, model, mean in zip(sizes, models, inputs, strict=True):
        weights = generator.normal(model, 1, (_FEATURES, _CLASSES))
        bias = generator.normal(model, 1, _CLASSES)
        center = generator.normal(mean, 1, _FEATURES)
        drawn = generator.normal(center, scale, (size, _FEATURES))
        x.append(drawn.astype(np.float32))
        y.append(np.argmax(drawn @ weights + bias, axis=1).astype(np.int32))
    ids = np.repeat([f"client{i:03d}" for i in range(clients)], sizes)
    return Pooled(Examples(np.concatenate(x), np.concatenate(y)), ids)


def load_function(config: DataConfig, path: Path, seed: int, folder: Path) -> FederatedData | Pooled:
    """Calls the function and checks its result.

    Args:
        config: The configuration, which names the function.
        path: The argument ``path`` of the function.
        seed: The argument ``seed`` of the function.
        folder: The folder of the configuration file.

    Raises:
        ConfigError: There is no such function, it fails, or its result is invalid.
    """
    where = f"[data] source {config.source!r}"
    made = imports.function(config.source, "[data] source", folder)
    offered = {"seed": seed, "path": path, "batch_size": config.batch_size, "epochs": config.epochs}
    found = imports.call(made, where, config.arguments, offered)
    if isinstance(found, FederatedData):
        return _checked(found, where)
    if isinstance(found, Mapping) and {"clients", "test"} == found.keys():
        return _checked(FederatedData(found["clients"], found["test"]), where)
    if isinstance(found, Mapping) and {"x", "y"} <= found.keys():
        return as_pooled(found, where)
    keys = f" with the keys {sorted(map(str, found))}" if isinstance(found, Mapping) else ""
    raise ConfigError(
        f"{where} returned a {type(found).__name__}{keys}; it must be a dictionary with the keys x and y, or "
        "with clients and test"
    )


def _is_pair(value: Given) -> bool:
    """Returns whether a client's data are a pair of arrays, inputs and labels."""
    return isinstance(value, tuple | list) and len(value) == 2


def _checked(data: FederatedData, where: str) -> FederatedData:
    clients = data.clients
    if not isinstance(clients, Mapping) or not clients:
        raise ConfigError(
            f"{where} returned {'no clients' if isinstance(clients, Mapping) else type(clients).__name__}; "
            "clients must be a mapping from ids to data, with at least one client"
        )
    for client_id in clients:
        if not isinstance(client_id, str):
            raise ConfigError(f"{where}: the client id {client_id!r} is not text; use str(...)")
    if isinstance(clients, dict):  # other mappings are read on demand
        clients = {name: _one(value, f"{where}, client {name!r}") for name, value in clients.items()}
        _check_alike(clients, where)
    return FederatedData(clients, _one(data.test, f"{where}, test"))


def _check_alike(clients: Mapping[str, Given], where: str) -> None:
    """Raises `ConfigError` unless the examples of all clients have the same types."""
    kinds = {
        name: ", ".join(f"{array.dtype}{list(array.shape[1:])}" for array in value)
        for name, value in clients.items()
        if isinstance(value, Examples)
    }
    first = next(iter(kinds), "")
    for name, kind in kinds.items():
        if kind != kinds[first]:
            raise ConfigError(
                f"{where}: an example of client {name!r} is {kind}; it must be {kinds[first]}, like those of "
                f"client {first!r}"
            )


def _one(value: Given, where: str) -> Given:
    if _is_pair(value):
        x, y = value
        return value if isinstance(value, Examples) else as_examples(x, y, where)
    if callable(value) or hasattr(value, "element_spec"):
        return value
    raise ConfigError(
        f"{where} is a {type(value).__name__}; it must be a pair of arrays (x, y), a tf.data.Dataset of "
        "batches, or (for a client) a function of the round number"
    )
