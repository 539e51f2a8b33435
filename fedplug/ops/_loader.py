"""Finds, checks and loads the compiled op library. Must not know any op.

An op library works only with the TensorFlow it was compiled against; with another one it crashes or, worse,
does not. So what the build recorded next to the library is compared with the running TensorFlow before
anything is loaded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from fedplug.errors import OpLibraryError

__all__ = ["find_library", "library", "require_built_for"]

_LIBRARY = "_fedplug_ops.so"
_BUILD_INFO = "build_info.json"
_REMEDY = (
    "Build it for the TensorFlow that is installed: "
    "`pip install --force-reinstall --no-binary fedplug fedplug`, or `make setup` in a checkout. "
    "The plain-TensorFlow twins (lowering='reference') work without it"
)


@functools.cache
def library() -> Any:
    """The compiled ops, one Python function each (``fedplug_top_k_residual`` ...); loaded on the first call.

    Raises:
        OpLibraryError: The library is missing, damaged, or was built for another TensorFlow.
    """
    return _load(find_library(_package_folders()))


def find_library(folders: Iterable[str | Path]) -> Path:
    """The op library in the first of ``folders`` that has one.

    Raises:
        OpLibraryError: None has.
    """
    searched = [Path(folder) for folder in folders]
    for folder in searched:
        if (folder / _LIBRARY).is_file():
            return folder / _LIBRARY
    places = ", ".join(str(folder) for folder in searched)
    raise OpLibraryError(
        f"fedplug was installed without its compiled ops: no {_LIBRARY} in {places}. {_REMEDY}"
    )


def require_built_for(path: Path, running: str) -> None:
    """Checks that the library at ``path`` was built against TensorFlow ``running``.

    Raises:
        OpLibraryError: It was not, or its build record cannot be read.
    """
    record = path.with_name(_BUILD_INFO)
    try:
        built_for = json.loads(record.read_text(encoding="utf-8"))["tensorflow"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OpLibraryError(
            f"{record} does not say which TensorFlow {path.name} was built for ({error!r}). {_REMEDY}"
        ) from error
    if built_for != running:
        raise OpLibraryError(
            f"{path} was built for TensorFlow {built_for}, but TensorFlow {running} is running. {_REMEDY}"
        )


def _package_folders() -> list[str]:
    # An editable install spreads this package over two folders, the sources and the compiled parts; its path
    # has both.
    import fedplug.ops

    return list(fedplug.ops.__path__)


def _load(path: Path) -> Any:
    require_built_for(path, tf.__version__)
    try:
        return tf.load_op_library(str(path))
    except (tf.errors.OpError, RuntimeError) as error:
        raise OpLibraryError(f"{path} cannot be loaded: {error}. {_REMEDY}") from error
