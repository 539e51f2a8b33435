"""``source = "npz"``: arrays in a file from `numpy.savez`, or in a dictionary with the same names."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.tff.experiment.data.federated import Array, Pooled, as_examples

__all__ = ["as_pooled", "load_npz"]

_NAMES = ("x", "y", "client", "x_test", "y_test")


def load_npz(path: Path) -> Pooled:
    """Reads ``x`` and ``y`` from a file, and ``client``, ``x_test`` and ``y_test`` if it has them.

    The first axis counts the examples. Pickled objects are refused: they could run any program.

    Raises:
        ConfigError: The file cannot be read, or its arrays are invalid. See `as_pooled`.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ConfigError(f"{path} has one array; write it with numpy.savez(path, x=..., y=...)")
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"{path} is not a file from numpy.savez, or has Python objects, which are refused: {error}"
        ) from error
    return as_pooled(arrays, str(path))


def as_pooled(arrays: Mapping[str, Any], where: str) -> Pooled:
    """Creates examples from arrays by name.

    Args:
        arrays: ``x`` and ``y``. Optionally ``client``, the client id of every example as whole number or
            text, and ``x_test`` with ``y_test``. Text labels are numbered in sorted order.
        where: The origin of the arrays, for error messages.

    Raises:
        ConfigError: An array is missing or unknown, or has a wrong dtype, length or shape.
    """
    for name in arrays:
        if name not in _NAMES:
            raise UnknownNameError("array", name, _NAMES, where)
    wanted = ["x", "y", *(["x_test", "y_test"] if {"x_test", "y_test"} & arrays.keys() else [])]
    for name in wanted:
        if name not in arrays:
            raise ConfigError(f"{where} lacks the array {name!r}; it has {', '.join(arrays) or 'none'}")
    labels = _numbered([np.asarray(arrays[name]) for name in wanted[1::2]])
    examples = as_examples(arrays["x"], labels[0], where)
    test = None
    if "x_test" in arrays:
        test = as_examples(arrays["x_test"], labels[1], f"{where}, test")
        for name, of_test, of_training in zip("xy", test, examples, strict=True):
            found, needed = (f"{each.dtype}{list(each.shape[1:])}" for each in (of_test, of_training))
            if found != needed:
                raise ConfigError(
                    f"{where}: an example of {name}_test is {found}; it must be {needed}, as in {name}"
                )
    return Pooled(examples, _clients(arrays.get("client"), len(examples.x), where), test)


def _numbered(labels: list[Array]) -> list[Array]:
    """Replaces text labels by their positions in the sorted list of all labels."""
    if not all(each.dtype.kind in "US" for each in labels):
        return labels
    numbers = np.unique(np.concatenate(labels), return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(each) for each in labels])[:-1])


def _clients(values: Any, examples: int, where: str) -> Array | None:
    if values is None:
        return None
    client = np.asarray(values)
    if client.shape != (examples,) or client.dtype.kind not in "iuUS":
        raise ConfigError(
            f"{where}: client is {client.dtype}{list(client.shape)}; it must have an id, a whole number or "
            f"text, for each of the {examples} examples"
        )
    return client.astype(str)
