"""Loads the data of a configuration from any source, and divides them among clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data import partitions
from fedplug.tff.experiment.data.csv_table import load_csv
from fedplug.tff.experiment.data.digits import load_digits
from fedplug.tff.experiment.data.federated import Array, Examples, FederatedData, Pooled
from fedplug.tff.experiment.data.function import load_function
from fedplug.tff.experiment.data.npz import load_npz
from fedplug.tff.experiment.data.synthetic import load_synthetic

__all__ = ["load_data", "spread"]


def load_data(config: DataConfig, seed: int, folder: Path = Path()) -> FederatedData:
    """Loads the data of a configuration, with the split of a seed.

    Args:
        config: The data source and the division among clients.
        seed: The seed of the test split and the partition.
        folder: The folder of the configuration file, to which paths are relative.

    Raises:
        ConfigError: The source cannot be read, has invalid contents, or cannot be divided as configured.
        MissingDependencyError: The source needs a package that is not installed.
    """
    path = folder / Path(config.path).expanduser() if config.path else folder
    found: FederatedData | Pooled
    if config.source == "digits":
        found = load_digits(config, seed)
    elif config.source == "npz":
        found = load_npz(path)
    elif config.source == "csv":
        found = load_csv(path, config.label_column, config.client_column)
    elif config.source == "synthetic":
        found = load_synthetic(config.clients, config.alpha, config.beta, seed)
    else:
        found = load_function(config, path, seed, folder)
    return found if isinstance(found, FederatedData) else spread(found, config, seed)


def spread(pooled: Pooled, config: DataConfig, seed: int) -> FederatedData:
    """Holds out test examples if the source has none, and divides the others among the clients.

    Raises:
        ConfigError: The examples cannot be divided as configured.
    """
    (x, y), client, test = pooled
    labelled = y.ndim == 1 and y.dtype.kind == "i"
    kind = _partition(config.partition, client is not None, labelled)
    if test is None:
        groups = (
            client if kind == "given" and client is not None else y if labelled else np.zeros(len(y), int)
        )
        train, held_out = partitions.hold_out(groups, config.test_fraction, seed)
        if not len(held_out):
            raise ConfigError(
                f"test_fraction {config.test_fraction} of {len(y)} examples leaves no test example; use a "
                "larger fraction, or x_test and y_test"
            )
        test = Examples(x[held_out], y[held_out])
        x, y, client = x[train], y[train], None if client is None else client[train]
    positions = _positions(kind, config, y, client, seed)
    return FederatedData({name: Examples(x[at], y[at]) for name, at in positions.items()}, test)


def _partition(wanted: str, has_clients: bool, labelled: bool) -> str:
    if wanted == "auto":
        return "given" if has_clients else "dirichlet" if labelled else "iid"
    if wanted == "given" and not has_clients:
        raise ConfigError("partition is 'given', which needs client ids, but the data have none")
    if wanted in ("dirichlet", "classes") and not labelled:
        raise ConfigError(
            f"partition is {wanted!r}, but the labels are not classes; it must be 'iid' or 'given'"
        )
    return wanted


def _positions(kind: str, config: DataConfig, y: Array, client: Array | None, seed: int) -> dict[str, Array]:
    if kind == "given":
        assert client is not None
        return partitions.given(client)
    if kind == "iid":
        parts = partitions.iid(len(y), config.clients, seed)
    elif kind == "classes":
        parts = partitions.by_classes(y, config.clients, config.classes_per_client, seed)
    else:
        parts = partitions.by_dirichlet(y, config.clients, config.dirichlet, seed)
    return {f"client{i:03d}": part for i, part in enumerate(parts)}
