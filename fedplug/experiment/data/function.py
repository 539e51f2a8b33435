"""``source = "package.module:function"``: data that a user's function brings.

The function is called with the keys of ``[data.arguments]`` as keyword arguments, and with ``seed``,
``path``, ``batch_size`` and ``epochs`` if it has parameters of these names. It returns one of two:

- arrays by name, as a file of ``source = "npz"`` has them: ``{"x": ..., "y": ...}``, with ``"client"``,
  ``"x_test"`` and ``"y_test"`` if there are any. They are spread over clients as ``[data]`` says.
- `FederatedData`, or ``{"clients": ..., "test": ...}``: clients by id, each a pair ``(x, y)`` of arrays, a
  `tf.data.Dataset` of batches, or a function from the number of the round to one of the two; and test
  examples, a pair of arrays or a `tf.data.Dataset` of batches. Arrays are shuffled and batched as ``[data]``
  says; datasets are taken as they are: unless they give the same in the same round, a resumed run ends with
  other numbers. The model sees the batches' own types: of arrays a pair, see `as_examples`, of datasets the
  ``element_spec``.

Must not import TensorFlow: what is no array is not looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplug.errors import ConfigError
from fedplug.experiment import imports
from fedplug.experiment.config import DataConfig
from fedplug.experiment.data.federated import Examples, FederatedData, Pooled, as_examples
from fedplug.experiment.data.npz import as_pooled

__all__ = ["load_function"]


def load_function(config: DataConfig, path: Path, seed: int, folder: Path) -> FederatedData | Pooled:
    """Calls the function, and checks what it returns.

    Args:
        config: Names the function.
        path: What it is given as ``path``.
        seed: What it is given as ``seed``.
        folder: Of the configuration file.

    Raises:
        ConfigError: There is no such function, it fails, or it returns something else.
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
    """Whether a client's data are arrays, inputs and labels."""
    return isinstance(value, tuple | list) and len(value) == 2


def _checked(data: FederatedData, where: str) -> FederatedData:
    clients = data.clients
    if not isinstance(clients, Mapping) or not clients:
        raise ConfigError(
            f"{where} returned {'no clients' if isinstance(clients, Mapping) else type(clients).__name__}; "
            "clients must be a mapping from ids to data, with one client at least"
        )
    for client_id in clients:
        if not isinstance(client_id, str):
            raise ConfigError(f"{where}: the client id {client_id!r} is no text; use str(...)")
    if isinstance(clients, dict):  # others are read when they are needed
        clients = {name: _one(value, f"{where}, client {name!r}") for name, value in clients.items()}
        _check_alike(clients, where)
    return FederatedData(clients, _one(data.test, f"{where}, test"))


def _check_alike(clients: Mapping[str, Any], where: str) -> None:
    """Raises unless the examples of all clients have the same types."""
    kinds = {
        name: ", ".join(f"{array.dtype}{list(array.shape[1:])}" for array in value)
        for name, value in clients.items()
        if isinstance(value, Examples)
    }
    first = next(iter(kinds), "")
    for name, kind in kinds.items():
        if kind != kinds[first]:
            raise ConfigError(
                f"{where}: an example of client {name!r} is {kind}; it must be {kinds[first]}, as those of "
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
        "batches, or (of a client) a function of the round's number"
    )
