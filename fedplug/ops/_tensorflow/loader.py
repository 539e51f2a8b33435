"""Finds, checks and loads compiled op libraries, those of fedplug and of plugins."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from fedplug.errors import OpLibraryError
from fedplug.ops._tensorflow import gradients
from fedplug.registry import op_libraries, resolve
from fedplug.registry.build_info import require_current

_LIBRARY = "_fedplug_ops.so"
_DISTRIBUTED = "fedplug_tensorflow"
_REMEDY = (
    "Install the one for the TensorFlow that is installed: "
    "`pip install --force-reinstall --no-deps fedplug-tensorflow`, or `make setup` in a checkout. "
    "The references of stock ops (lowering='reference') work without it"
)

_loaded: dict[str, Path] = {}
"""The file that was loaded, by its name."""


@functools.cache
def library() -> Any:
    """Loads the compiled ops, a module with one Python function each (``fedplug_crc32`` ...).

    Raises:
        OpLibraryError: The library is missing, damaged, older than the sources of this checkout, or was built
            for another TensorFlow.
    """
    # An editable install has this package in two folders: the sources and the compiled parts.
    path = find_library(sys.modules["fedplug.ops"].__path__)
    _require_built_for_running(path, _REMEDY)
    require_current(str(path), "csrc/tf/*.cc", op_libraries.built_from(path))
    first = path.name not in _loaded
    ops = _load(path, _REMEDY)
    if first:
        gradients.register()
    return ops


@functools.cache
def op_library(name: str) -> Any:
    """See `fedplug.ops.lowering.op_library`."""
    entry = resolve.find("op_library", name)
    assert entry.spec is not None  # every usable entry has a spec
    package, _, file = entry.spec.target.partition(":")
    path = op_libraries.find(op_libraries.folders_of(package), file)
    remedy = op_libraries.rebuild(entry.distribution)
    _require_built_for_running(path, remedy)
    return _load(path, remedy)


def find_library(folders: Iterable[str | Path]) -> Path:
    """Finds fedplug's own op library: in the first of ``folders`` that has it, or else in its distribution.

    Raises:
        OpLibraryError: No folder has it.
    """
    try:
        return op_libraries.find([*folders, *_distributed()], _LIBRARY)
    except OpLibraryError as error:
        raise OpLibraryError(f"fedplug was installed without its compiled ops: {error}. {_REMEDY}") from error


def _distributed() -> list[str]:
    """The folders of the distribution fedplug-tensorflow. Empty if it is not installed."""
    with contextlib.suppress(OpLibraryError):
        return op_libraries.folders_of(_DISTRIBUTED)
    return []


def _require_built_for_running(path: Path, remedy: str) -> None:
    try:
        op_libraries.require_built_for(path, tf.__version__)
    except OpLibraryError as error:
        raise OpLibraryError(f"{error}. {remedy}") from error


def _load(path: Path, remedy: str) -> Any:
    loaded = _loaded.get(path.name, path.resolve())
    if loaded != path.resolve():
        raise OpLibraryError(
            f"{path} cannot be loaded: this process has loaded {loaded}, and a second copy would register "
            "the same ops, which can end the process. Start a new process, and keep one of the two"
        )
    try:
        library = tf.load_op_library(str(path))
        _loaded[path.name] = loaded
        return library
    except (tf.errors.OpError, RuntimeError) as error:
        raise OpLibraryError(f"{path} cannot be loaded: {error}. {remedy}") from error
