"""Updates of a model, as differences between two `ArrayRecord`s."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from io import BytesIO

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedplug.codecs.arrays import update_between

__all__ = ["between", "dtype_of", "in_form_of", "moved", "read"]

Differences = Mapping[str, NDArray[np.generic]]

_NUMPY = "numpy.ndarray"
"""Flower's name for the only serialization that it reads."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""The function that reads the header of an array from `numpy.save`, by its version."""


def read(name: str, array: Array) -> NDArray[np.generic]:
    """Returns the elements of an untrusted array without a copy.

    A header may declare any size, so no memory is allocated for it.

    Raises:
        ValueError: The bytes are not one array of this size. The message names the array.
    """
    try:
        if array.stype != _NUMPY:
            raise ValueError(f"it is serialized as {array.stype!r}, not as {_NUMPY!r}")
        file = BytesIO(array.data)
        shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
        begin = file.tell()
        found: NDArray[np.generic] = np.ndarray(
            shape, dtype, array.data, begin, order="F" if is_fortran else "C"
        )
        if begin + found.nbytes != len(array.data):
            raise ValueError(f"its {len(array.data) - begin} bytes are not {dtype}{list(shape)}")
        return found
    except Exception as error:
        raise ValueError(f"array {name!r} cannot be read: {error}") from error


def between(
    trained: ArrayRecord,
    received: ArrayRecord,
    values: Collection[str] = (),
    narrow: Collection[str] = (),
) -> dict[str, NDArray[np.generic]]:
    """Computes ``trained - received`` for one array after the other, in the order of ``received``.

    Args:
        trained: Numeric arrays with the names and shapes of ``received``.
        received: The model at the start of training.
        values: Names of arrays whose trained values are returned instead of differences: a rounded
            difference of floats does not restore the same bits.
        narrow: Names of arrays whose differences are float32 in any case.

    Returns:
        The differences by name. They are float64 if the server's array has integers or float64, which Flower
        makes of integers in later rounds. Counters are then exact up to 2^53. Others are float32, subtracted
        before rounding. The difference of an unchanged entry is 0, even if it is infinite or NaN.

    Raises:
        ValueError: Names, shapes or kinds differ. The message names the array.
    """
    _require_same_names(trained, received)
    found = {}
    for name in received:
        after, before = read(name, trained[name]), read(name, received[name])
        _require_numbers(name, after, before)
        if name in values:
            found[name] = _value(after, before)
        else:
            dtype = np.dtype(np.float32) if name in narrow else dtype_of(before)
            found[name] = update_between(after, before, dtype)
    return found


def moved(model: ArrayRecord, update: Differences, values: Collection[str] = ()) -> ArrayRecord:
    """Computes ``model + update`` in the dtypes of Flower's averages, which are float64 for integers.

    Args:
        model: The model of the update.
        update: The result of `between`, or a mean of such results.
        values: Names of arrays of which the update has values instead of differences.
    """
    return ArrayRecord(
        {name: _sum(read(name, array), update[name], name in values) for name, array in model.items()}
    )


def dtype_of(received: NDArray[np.generic]) -> np.dtype[np.generic]:
    """Returns the dtype of the differences to an array of the server. See `between`."""
    return np.dtype(np.float32 if received.dtype in (np.float16, np.float32) else np.float64)


def _require_same_names(trained: ArrayRecord, received: ArrayRecord) -> None:
    if missing := sorted(received.keys() - trained.keys()):
        raise ValueError(f"array {missing[0]!r} of the model is missing")
    if unknown := sorted(trained.keys() - received.keys()):
        raise ValueError(f"array {unknown[0]!r} is not in the model that the server sent")


def in_form_of(model: ArrayRecord, trained: ArrayRecord) -> ArrayRecord:
    """Returns ``trained`` in the order of the model's arrays, with floats in their dtypes.

    Some strategies match arrays by position, and average in the dtypes they get.
    """
    return ArrayRecord({name: _cast(trained[name], array) for name, array in model.items()})


def _cast(trained: Array, like: Array) -> Array:
    dtype = read("", like).dtype
    values = read("", trained)
    return trained if dtype.kind != "f" or values.dtype == dtype else Array(values.astype(dtype))


def _require_numbers(name: str, after: NDArray[np.generic], before: NDArray[np.generic]) -> None:
    if after.shape != before.shape:
        raise ValueError(f"array {name!r} has shape {after.shape}, the server's has {before.shape}")
    for array in (after, before):
        if array.dtype.kind not in "fiub":
            raise ValueError(f"array {name!r} is of {array.dtype}, not of numbers that can be averaged")


def _value(after: NDArray[np.generic], before: NDArray[np.generic]) -> NDArray[np.generic]:
    """Converts to the server's float dtype: a strategy may have made integers float32.

    A narrower float stays as it is: it has the same value in fewer bytes.
    """
    is_narrower = after.dtype.kind == "f" and after.itemsize <= before.itemsize
    return after if before.dtype.kind != "f" or is_narrower else after.astype(before.dtype)


def _sum(array: NDArray[np.generic], update: NDArray[np.generic], is_value: bool) -> Array:
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    if is_value:
        return Array(np.asarray(update).astype(dtype, copy=False))
    return Array(
        np.asarray(np.add(array, update, dtype=np.result_type(dtype, update))).astype(dtype, copy=False)
    )
