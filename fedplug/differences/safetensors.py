"""Reads safetensors files tensor by tensor: the length of a JSON header in 8 bytes, the header, the data."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import fedplug.wire as wire
from fedplug.errors import ArgumentError, PayloadError

__all__ = ["HEADER", "Parts", "SafetensorsFile", "open_regular"]

HEADER = "__metadata__"
"""The name under which a file has its header. The format reserves it, so that no tensor has it."""

_LARGEST_HEADER = 10**8
"""The limit of the format."""

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("?"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "C64": np.dtype("<c8"),
    **{f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}


class _Place(NamedTuple):
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    begin: int
    end: int


class Parts(Mapping[str, NDArray[np.generic]]):
    """Arrays by name, in order and each read on access; a subclass says where they are.

    Attributes:
        files: The files that have them.
    """

    files: list[Path]
    _places: dict[str, Any]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


class SafetensorsFile(Parts):
    """The parts of a file in their order: the header under `HEADER`, then the tensors, each read on access.

    The file is open only while it is read, because a checkpoint may have more files than a process may open.
    Tensors of other dtypes than NumPy and ml_dtypes have are arrays of their bytes.

    Args:
        path: The file.

    Raises:
        ArgumentError: It is not a safetensors file, or is truncated.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.files = [path]
        with open_regular(path) as file:
            self._version = _version(file)
            self.size = os.fstat(file.fileno()).st_size
            try:
                self._places: dict[str, Any] = dict(self._parts(file))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ArgumentError(f"{path} is not a safetensors file: {error}") from error

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        place = self._places[name]
        data = np.empty(place.end - place.begin, np.uint8)
        (path,) = self.files
        with open_regular(path) as file:
            file.seek(place.begin)
            if _version(file) != self._version or file.readinto(data.data) < data.size:  # type: ignore[attr-defined]
                raise ArgumentError(f"{path} changed while it was read; do it again")
        array: NDArray[np.generic] = data.view(place.dtype).reshape(place.shape)
        return array

    def _parts(self, file: BinaryIO) -> Iterator[tuple[str, _Place]]:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LARGEST_HEADER, self.size - 8):
            raise ValueError(f"its header would have {length} bytes, and the file has {self.size}")
        end = 8 + length
        yield HEADER, _Place(np.dtype(np.uint8), (end,), 0, end)
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
            begin, end = _checked(name, header[name], 8 + length, end)
            yield name, _place(header[name], begin, end)
        if end != self.size:
            raise ValueError(f"its tensors end at byte {end}, and the file at {self.size}")


def open_regular(path: Path) -> BinaryIO:
    """Opens a file that can be read at any place; a FIFO would block until something writes to it.

    Raises:
        ArgumentError: It is a FIFO, a device or the like.
        OSError: It cannot be read.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder raises
        raise ArgumentError(f"{path} is no regular file; write its contents to a file first")
    return path.open("rb")


def _version(file: BinaryIO) -> tuple[int, ...]:
    """Identifies the contents of an open file, which other processes may replace."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _checked(name: str, tensor: dict[str, Any], data: int, expected: int) -> tuple[int, int]:
    """Returns where a tensor is in the file. Its begin must be the end of the tensor before it."""
    name.encode()  # a JSON text may have surrogates, which no message has
    if name.startswith(f"{HEADER}/"):
        raise ValueError(f"tensor {name!r} has a name that differences keep for files; rename it")
    first, last = tensor["data_offsets"]
    if type(first) is not int or type(last) is not int or data + first != expected or last < first:
        raise ValueError(f"tensor {name!r} is at {first} to {last}, and the one before it ends elsewhere")
    return data + first, data + last


def _place(tensor: dict[str, Any], begin: int, end: int) -> _Place:
    """Returns a tensor's place; a tensor that NumPy or a payload cannot have is an array of its bytes."""
    name, shape = tensor["dtype"], tensor["shape"]
    whole = type(shape) is list and all(type(dim) is int and dim >= 0 for dim in shape)
    if type(name) is not str or not whole:
        raise ValueError(f"a tensor is of dtype {name!r} and shape {shape!r}")
    dtype = _DTYPES.get(name)
    if dtype is not None and math.prod(shape) * dtype.itemsize == end - begin:
        try:
            wire.header("diff/1", "uint8", shape)
            wire.require_possible(shape, dtype.itemsize)
            return _Place(dtype, tuple(shape), begin, end)
        except PayloadError:
            pass
    return _Place(np.dtype(np.uint8), (end - begin,), begin, end)
