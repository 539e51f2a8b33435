"""Updates for ``fedplug bench``: random numbers, the arrays of a file, or the difference of checkpoints."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.codecs.arrays import update_between
from fedplug.differences.checkpoints import file_name_of, open_checkpoint
from fedplug.differences.safetensors import open_regular
from fedplug.errors import ArgumentError, ConfigError

__all__ = ["Update", "random_update", "read_update", "some_names", "update_between_files"]

_FLOATS = tuple(map(np.dtype, (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)))
"""The dtypes that encoders accept."""

_FEWEST = 1000
_NAMED = 3
"""The maximum number of names in a message of one line."""

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Update:
    """Arrays to encode, as from a client.

    Attributes:
        source: The origin of the arrays, for people.
        arrays: Float arrays by name: finite, C-contiguous, not all zero.
        left_out: Names of arrays that have no elements, or a dtype that encoders do not accept.
    """

    source: str
    arrays: Arrays
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.arrays:
            others = f", only {some_names(self.left_out)}" if self.left_out else ""
            raise ConfigError(
                f"{self.source}: there is no array of float16, bfloat16, float32 or float64 to encode{others}"
            )
        for name, array in self.arrays.items():
            if not kernels.all_finite(array):
                raise ConfigError(f"{self.source}: array {name!r} contains NaN or infinity; remove it first")
        if not any(array.any() for array in self.arrays.values()):
            raise ConfigError(f"{self.source}: all numbers are 0, so there is nothing to encode")

    @property
    def elements(self) -> int:
        """The number of elements of all arrays."""
        return sum(array.size for array in self.arrays.values())

    @property
    def dense_bytes(self) -> int:
        """The size of all arrays without compression."""
        return sum(array.nbytes for array in self.arrays.values())

    def __str__(self) -> str:
        count = len(self.arrays)
        dtypes = ", ".join(sorted({array.dtype.name for array in self.arrays.values()}))
        text = f"{self.source}: {self.elements:,} {dtypes} in {count} array{'s' if count > 1 else ''}"
        return f"{text}; {len(self.left_out)} left out, without floats" if self.left_out else text


def random_update(elements: int) -> Update:
    """Returns normally distributed float32 values, always the same.

    Raises:
        ConfigError: There are fewer than 1,000 elements.
    """
    if elements < _FEWEST:
        raise ConfigError(f"elements is {elements}; it must be {_FEWEST} or more for a useful measurement")
    numbers = np.random.default_rng(0).standard_normal(elements, np.float32)
    return Update("normally distributed numbers", {"update": numbers})


def read_update(path: str | Path) -> Update:
    """Reads the arrays of a ``.safetensors``, ``.npy`` or ``.npz`` file, or of a checkpoint of several files.

    Raises:
        ConfigError: The file cannot be read, or contains nothing to encode.
    """
    arrays, left_out = _read(Path(path))
    return Update(str(path), arrays, left_out)


def update_between_files(old: str | Path, new: str | Path) -> Update:
    """Returns the difference of two checkpoints, array by array. Their names must match.

    Raises:
        ConfigError: A file cannot be read, the files are of different models, or the difference is zero.
    """
    before, left_out = _read(Path(old))
    after, _ = _read(Path(new))
    alone = [
        f"only in {path}: {some_names(mine - others)}"
        for path, mine, others in ((old, set(before), set(after)), (new, set(after), set(before)))
        if mine - others
    ]
    if alone:
        raise ConfigError(f"an update needs two files with the same arrays; {'; '.join(alone)}")
    return Update(
        f"{new} - {old}",
        {name: _difference(name, before[name], after[name]) for name in before},
        left_out,
    )


def _difference(name: str, old: NDArray[np.generic], new: NDArray[np.generic]) -> NDArray[np.generic]:
    if (old.shape, old.dtype) != (new.shape, new.dtype):
        raise ConfigError(
            f"array {name!r} is {old.dtype}{list(old.shape)} in one file and "
            f"{new.dtype}{list(new.shape)} in the other"
        )
    return update_between(new, old, old.dtype)


def _read(path: Path) -> tuple[dict[str, NDArray[np.generic]], tuple[str, ...]]:
    """Returns the arrays to encode by name, and the names of the others."""
    try:
        if path.suffix in (".npy", ".npz"):
            open_regular(path).close()
            return _read_numpy(path)
        if path.suffix in (".safetensors", ".json") or path.is_dir():
            return _read_checkpoint(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except ArgumentError as error:
        raise ConfigError(str(error)) from error
    raise ConfigError(
        f"{path} is neither a .safetensors nor a .npy file, nor a .npz archive, nor the folder or index of a "
        "checkpoint; save its arrays with safetensors or numpy.savez"
    )


def _read_numpy(path: Path) -> tuple[dict[str, NDArray[np.generic]], tuple[str, ...]]:
    """Reads a ``.npy`` file, or all of a ``.npz`` archive."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return _one_array(path, loaded), ()
        with loaded:
            members = {name: _member(loaded, name) for name in sorted(loaded.files)}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise ConfigError(f"{path} is not a readable array: {error}") from error
    arrays = {name: _native(array) for name, array in members.items() if array is not None}
    return arrays, tuple(name for name in members if name not in arrays)


def _one_array(path: Path, array: NDArray[np.generic]) -> dict[str, NDArray[np.generic]]:
    dtype = array.dtype.newbyteorder("=")
    if dtype not in _FLOATS:
        hint = "; bfloat16 needs .safetensors" if dtype.kind == "V" else ""
        raise ConfigError(f"{path} is an array of {dtype}, which no encoder accepts{hint}")
    return {"array": _native(array)} if array.size else {}


def _member(archive: Any, name: str) -> NDArray[np.generic] | None:
    """Reads an array of a ``.npz`` archive. Returns None if no encoder accepts it."""
    try:
        array = archive[name]
    except ValueError as error:
        if "allow_pickle" in str(error):  # Python objects
            return None
        raise ValueError(f"array {name!r}: {error}") from error
    if not isinstance(array, np.ndarray):  # a file in the archive that is not an array
        return None
    dtype = array.dtype.newbyteorder("=")
    return array if array.size and dtype in _FLOATS else None


def _native(array: NDArray[np.generic]) -> NDArray[np.generic]:
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _read_checkpoint(path: Path) -> tuple[dict[str, NDArray[np.generic]], tuple[str, ...]]:
    """Reads a safetensors file, or all files of a checkpoint."""
    parts, _ = open_checkpoint(path)
    arrays, left_out = {}, []
    for name in sorted(name for name in parts if file_name_of(name) is None):
        array = parts[name]
        if array.size and array.dtype in _FLOATS:
            arrays[name] = array
        else:
            left_out.append(name)
    return arrays, tuple(left_out)


def some_names(names: Iterable[str]) -> str:
    """Returns the first names and the number of the others."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more
