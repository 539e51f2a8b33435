"""The common result of all data sources: examples by client, and test examples that no client has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedplug.errors import ConfigError

__all__ = ["Array", "Examples", "FederatedData", "Pooled", "as_examples", "as_inputs", "as_targets"]

Array = np.ndarray[Any, Any]

_INT32 = np.iinfo(np.int32)


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

    clients: Mapping[str, Any]
    test: Any


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


def as_examples(x: Any, y: Any, where: str) -> Examples:
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


def as_inputs(x: Any, where: str) -> Array:
    """Converts inputs. See `as_examples`."""
    array = _array(x, "x", where)
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    if array.dtype.kind in "iu":
        return _as_int32(array, "x", where)
    return array.astype(np.float32)  # booleans, too


def as_targets(y: Any, where: str) -> Array:
    """Converts labels or values. See `as_examples`."""
    array = _array(y, "y", where)
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    labels = _as_int32(array.astype(np.int8) if array.dtype.kind == "b" else array, "y", where)
    if labels.size and labels.min() < 0:
        raise ConfigError(f"{where}: y has the label {labels.min()}; labels must be whole numbers from 0")
    return labels


def _array(values: Any, name: str, where: str) -> Array:
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
