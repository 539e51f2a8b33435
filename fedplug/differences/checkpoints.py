"""Checkpoints in files: one safetensors file, or an index.json and the shards that it names.

The message of a checkpoint is that of a model whose arrays are the parts of its files in their order. A file
begins with its bytes before the first tensor, under a name that no tensor has: `HEADER` of a single file, and
``HEADER + "/" + file name`` of an index and of shards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedplug.differences.safetensors import HEADER, Parts, SafetensorsFile, open_regular
from fedplug.errors import ArgumentError

__all__ = ["file_name_of", "open_checkpoint"]

_INDEX = ".safetensors.index.json"


def open_checkpoint(path: str | Path) -> tuple[Parts, int]:
    """Opens a safetensors file, an index.json, or a folder with an index.json.

    Returns:
        The parts by name, in order and each read on access, and their size in bytes.

    Raises:
        ArgumentError: It is none of these, or a file is damaged.
        OSError: A file cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        path = _index_in(path)
    if not path.name.endswith(".json"):
        single = SafetensorsFile(path)
        return single, single.size
    with open_regular(path) as file:
        index = file.read()
    parts, size = _Files([path]), len(index)
    parts.add(path.name, {HEADER: np.frombuffer(index, np.uint8)})
    for name in _shards(path, index):
        shard = SafetensorsFile(path.with_name(name))
        parts.add(name, shard)
        parts.files += shard.files
        size += shard.size
    return parts, size


def file_name_of(name: str) -> str | None:
    """Returns the file that begins with a part, "" for a single one. None if the part is a tensor.

    Raises:
        ArgumentError: The untrusted name is that of no file in the folder of the checkpoint.
    """
    if name == HEADER:
        return ""
    if not name.startswith(_header_of("")):
        return None
    file_name = name.removeprefix(_header_of(""))
    _require_plain(file_name, "the difference")
    return file_name


class _Files(Parts):
    """The parts of several files: each name with the file and its name there."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self._places: dict[str, tuple[Mapping[str, NDArray[np.generic]], str]] = {}

    def add(self, file_name: str, parts: Mapping[str, NDArray[np.generic]]) -> None:
        for name in parts:
            added = _header_of(file_name) if name == HEADER else name
            if added in self._places:
                raise ArgumentError(f"{file_name} has the tensor {name!r}, and so has another shard")
            self._places[added] = parts, name

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        parts, there = self._places[name]
        return parts[there]


def _header_of(file_name: str) -> str:
    return f"{HEADER}/{file_name}"


def _index_in(folder: Path) -> Path:
    found = sorted(folder.glob(f"*{_INDEX}"))
    if len(found) != 1:
        raise ArgumentError(f"{folder} has {len(found)} files *{_INDEX}; name the checkpoint's file or index")
    return found[0]


def _shards(path: Path, index: bytes) -> list[str]:
    try:
        names = sorted(set(json.loads(index)["weight_map"].values()))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArgumentError(f"{path} is not the index of a checkpoint: {error}") from error
    for name in names:
        _require_plain(name, str(path))
    return names


def _require_plain(name: object, where: str) -> None:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise ArgumentError(f"{where} names the file {name!r}; the files of a checkpoint lie in one folder")
