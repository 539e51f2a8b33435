"""``source = "package.module:function"``: data from a user's function.

The function is called with the keys of ``[data.arguments]`` as keyword arguments. If it has parameters of
these names, it also gets ``seed``, ``path``, ``batch_size`` and ``epochs``. It returns one of two values:

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

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplug.errors import ConfigError
from fedplug.tff.experiment import imports
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.federated import Examples, FederatedData, Pooled, as_examples
from fedplug.tff.experiment.data.npz import as_pooled

__all__ = ["load_function"]


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


def _is_pair(value: Any) -> bool:
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


def _check_alike(clients: Mapping[str, Any], where: str) -> None:
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


def _one(value: Any, where: str) -> Any:
    if _is_pair(value):
        x, y = value
        return value if isinstance(value, Examples) else as_examples(x, y, where)
    if callable(value) or hasattr(value, "element_spec"):
        return value
    raise ConfigError(
        f"{where} is a {type(value).__name__}; it must be a pair of arrays (x, y), a tf.data.Dataset of "
        "batches, or (for a client) a function of the round number"
    )
