"""The common result of all data sources, made of arrays by name, and its fingerprint."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedplug.errors import ConfigError, UnknownNameError

__all__ = [
    "Array",
    "Examples",
    "FederatedData",
    "Fingerprint",
    "Given",
    "Pooled",
    "as_examples",
    "as_inputs",
    "as_pooled",
    "as_targets",
    "fingerprint",
    "load_npz",
]

Array = np.ndarray[Any, Any]

# The data of a client or of the test: arrays, a data set, or a function.
Given: TypeAlias = Any

_INT32 = np.iinfo(np.int32)

_NAMES = ("x", "y", "client", "x_test", "y_test")


class Examples(NamedTuple):
    """Inputs ``[n, ...]`` of float32 or int32, and labels ``int32[n, ...]`` or values ``float32[n, ...]``."""

    x: Array
    y: Array


class FederatedData(NamedTuple):
    """Training examples by client id, and test examples, on which no client trains.

    Attributes:
        clients: `Examples` (or any pair of arrays) by client id. A client may instead have a
            `tf.data.Dataset` of batches, or a function from the round number to one. A mapping other than a
            dictionary is read client by client, in the rounds that need them.
        test: Examples, or a `tf.data.Dataset` of batches.
    """

    clients: Mapping[str, Given]
    test: Given


class Pooled(NamedTuple):
    """Examples before their division among clients.

    Attributes:
        examples: All examples except those of ``test``.
        client: The client of each example, ``[n]``. None if the source has no clients.
        test: Test examples. None if some of ``examples`` are to be held out.
    """

    examples: Examples
    client: Array | None = None
    test: Examples | None = None


def as_examples(x: object, y: object, where: str) -> Examples:
    """Converts a user's arrays to examples with the dtypes of models.

    Floating-point inputs become float32. Bytes count as pixels and are scaled to [0, 1]. Other whole numbers
    become int32. Labels become int32, floating-point values float32.

    Args:
        x: Inputs. The first axis counts the examples.
        y: Labels or values. The first axis counts the examples.
        where: The origin of the arrays, for error messages.

    Raises:
        ConfigError: The arrays differ in length, are empty or not finite numbers, or a label is negative.
    """
    inputs, targets = as_inputs(x, where), as_targets(y, where)
    if len(inputs) != len(targets):
        raise ConfigError(f"{where}: x has {len(inputs)} examples and y {len(targets)}; they must be equal")
    if not len(inputs):
        raise ConfigError(f"{where}: there are no examples; there must be at least one")
    return Examples(inputs, targets)


def as_inputs(x: object, where: str) -> Array:
    """Converts inputs. See `as_examples`."""
    array = _array(x, "x", where)
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    if array.dtype.kind in "iu":
        return _as_int32(array, "x", where)
    return array.astype(np.float32)  # booleans, too


def as_targets(y: object, where: str) -> Array:
    """Converts labels or values. See `as_examples`."""
    array = _array(y, "y", where)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    labels = _as_int32(array.astype(np.int8) if array.dtype.kind == "b" else array, "y", where)
    if labels.size and labels.min() < 0:
        raise ConfigError(f"{where}: y has the label {labels.min()}; labels must be whole numbers from 0")
    return labels


def _array(values: object, name: str, where: str) -> Array:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ConfigError(f"{where}: {name} is not an array ({error})") from error
    if array.ndim < 1 or array.dtype.kind not in "fiub":
        raise ConfigError(
            f"{where}: {name} is {array.dtype}{list(array.shape)}; it must be an array of numbers whose "
            "first axis counts the examples"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(array.size - np.isfinite(array).sum())
        raise ConfigError(f"{where}: {name} has {bad} values that are not finite; remove or replace them")
    return array


def _as_int32(array: Array, name: str, where: str) -> Array:
    if array.size and (array.max() > _INT32.max or array.min() < _INT32.min):
        raise ConfigError(
            f"{where}: {name} ranges from {array.min()} to {array.max()}; it must fit into int32"
        )
    return array.astype(np.int32)


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


def as_pooled(arrays: Mapping[str, object], where: str) -> Pooled:
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


def _clients(values: object, examples: int, where: str) -> Array | None:
    if values is None:
        return None
    client = np.asarray(values)
    if client.shape != (examples,) or client.dtype.kind not in "iuUS":
        raise ConfigError(
            f"{where}: client is {client.dtype}{list(client.shape)}; it must have an id, a whole number or "
            f"text, for each of the {examples} examples"
        )
    return client.astype(str)


class Fingerprint(NamedTuple):
    """A fingerprint of clients and test examples.

    Attributes:
        clients: Number of clients.
        examples: Number of examples of all clients.
        sha256: Hash of the clients' names and of all arrays, with their dtypes and shapes, in hexadecimal.
    """

    clients: int
    examples: int
    sha256: str


def fingerprint(data: FederatedData) -> Fingerprint | None:
    """Returns the fingerprint of these data. None if a dataset or function produces some on demand."""
    if not isinstance(data.clients, dict):
        return None
    parts = [*sorted(data.clients.items()), ("", data.test)]
    if not all(_is_arrays(examples) for _, examples in parts):
        return None
    digest = hashlib.sha256()
    for name, examples in parts:
        for piece in _pieces(name, examples):
            digest.update(piece)
    count = sum(len(examples[0]) for examples in data.clients.values())
    return Fingerprint(len(data.clients), count, digest.hexdigest())


def _is_arrays(examples: object) -> bool:
    return isinstance(examples, tuple) and all(isinstance(array, np.ndarray) for array in examples)


def _pieces(name: str, examples: tuple[Array, ...]) -> Iterator[bytes | memoryview]:
    yield repr((name, [(array.dtype.str, array.shape) for array in examples])).encode()
    for array in examples:
        yield np.ascontiguousarray(array).data
