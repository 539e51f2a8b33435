"""Finds compiled op libraries and reads their sources and targets, without loading them.

An op library works only with the TensorFlow it was compiled against; with another one it crashes or computes
wrong results. Every build therefore writes a record next to the library, which is read before loading it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedplug.errors import OpLibraryError, text_of

__all__ = [
    "BUILD_RECORD",
    "built_from",
    "find",
    "folders_of",
    "installed_tensorflow",
    "rebuild",
    "require_built_for",
]

BUILD_RECORD = "build_info.json"

_TENSORFLOW_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")


def folders_of(package: str) -> list[str]:
    """Returns the folders of a package without importing it. An editable install may have several.

    Raises:
        OpLibraryError: There is no such package.
    """
    try:
        spec = importlib.util.find_spec(package)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # from the parent package, which is imported
        reason = f"{type(error).__name__}: {text_of(error)}"
        raise OpLibraryError(f"there is no package {package!r}: {reason}") from error
    if spec is None or spec.submodule_search_locations is None:
        raise OpLibraryError(f"there is no package {package!r}")
    return list(spec.submodule_search_locations)


def find(folders: Iterable[str | Path], file: str) -> Path:
    """Returns the library in the first of ``folders`` that has it.

    Raises:
        OpLibraryError: No folder has it.
    """
    searched = [Path(folder) for folder in folders]
    for folder in searched:
        if (folder / file).is_file():
            return folder / file
    raise OpLibraryError(f"no {file} in {', '.join(map(str, searched))}")


def require_built_for(path: Path, tensorflow: str) -> None:
    """Checks that the library at ``path`` was built against this version of TensorFlow.

    Raises:
        OpLibraryError: The versions differ, or the build record cannot be read.
    """
    record = path.with_name(BUILD_RECORD)
    try:
        built_for = _read(record)["tensorflow"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OpLibraryError(
            f"{record} does not say which TensorFlow {path.name} was built for ({error!r})"
        ) from error
    if built_for != tensorflow:
        raise OpLibraryError(
            f"{path} was built for TensorFlow {built_for}, but TensorFlow {tensorflow} is installed"
        )


def built_from(path: Path) -> str | None:
    """Returns the fingerprint of a library's sources (see `build_info`). None if unknown."""
    try:
        return str(_read(path.with_name(BUILD_RECORD))["built_from"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(record: Path) -> Any:
    return json.loads(record.read_text(encoding="utf-8"))


def installed_tensorflow() -> str | None:
    """Returns the version of the installed TensorFlow from its metadata. None if there is none."""
    for distribution in _TENSORFLOW_DISTRIBUTIONS:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def rebuild(distribution: str) -> str:
    """Returns the command that builds a distribution's libraries for the installed TensorFlow."""
    return (
        "`pip install --no-build-isolation --force-reinstall --no-deps "
        f"--no-binary {distribution} {distribution}`"
    )
