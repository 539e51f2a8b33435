"""Chooses between compiled TensorFlow ops and their references of stock ops, and loads op libraries.

The choice is made while a graph is built, not at import: one program may build one graph for a runtime with
the compiled ops and another for a runtime without them.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, Literal

from fedplug.errors import OpLibraryError, StaleBuildError, UnknownNameError

__all__ = ["available", "load_library", "op_library", "resolve_lowering", "use_lowering"]

_LOWERINGS = ("auto", "fused", "reference")
"""``"fused"``: the compiled op. ``"reference"``: stock ops. ``"auto"``: fused if the op library loads."""

_preferred: contextvars.ContextVar[str] = contextvars.ContextVar("fedplug_lowering", default="auto")


@contextlib.contextmanager
def use_lowering(lowering: str) -> Iterator[None]:
    """Makes a context in which ops without a ``lowering`` argument use this one.

    Raises:
        UnknownNameError: ``lowering`` is not "auto", "fused" or "reference".
    """
    token = _preferred.set(_known(lowering))
    try:
        yield
    finally:
        _preferred.reset(token)


def resolve_lowering(lowering: str | None = None) -> Literal["fused", "reference"]:
    """Returns the lowering of an op: the argument, or else that of `use_lowering`, or else "auto", resolved.

    Raises:
        OpLibraryError: "fused" was requested and the op library cannot be loaded.
        UnknownNameError: ``lowering`` is not "auto", "fused" or "reference".
    """
    wanted = _known(_preferred.get() if lowering is None else lowering)
    if wanted == "reference":
        return "reference"
    if wanted == "auto":
        return "fused" if available() else "reference"
    _library()
    return "fused"


def available() -> bool:
    """Whether the compiled ops can be used. Loads the op library to find out.

    Raises:
        StaleBuildError: The library was built from older sources of this checkout. Callers must not silently
            fall back to the references, which are many times slower.
    """
    try:
        _library()
    except StaleBuildError:
        raise
    except OpLibraryError:
        return False
    return True


def load_library() -> None:
    """Registers the compiled ops with TensorFlow, which must know them before it loads a saved model.

    Programs that call an op do not need it, because the first call registers all ops. docs/exporting.md has
    an example.

    Raises:
        OpLibraryError: The op library is missing, or was built for another TensorFlow. The message names the
            package to install.
    """
    _library()


def op_library(name: str) -> Any:
    """Loads the TensorFlow ops of a plugin's library: a module with one Python function for each op.

    Args:
        name: The name of the library in ``fedplug plugins list``.

    Raises:
        UnknownNameError: No plugin brings a library of that name. The message lists similar names.
        PluginError: The library is missing, or was built for another TensorFlow than the installed one.
        OpLibraryError: The library was built for another TensorFlow than the running one, or is damaged.
    """
    from fedplug.ops._tensorflow import loader  # imports TensorFlow

    return loader.op_library(name)


def _known(lowering: str) -> str:
    if lowering not in _LOWERINGS:
        raise UnknownNameError("lowering", lowering, _LOWERINGS)
    return lowering


def _library() -> None:
    from fedplug.ops._tensorflow import loader  # imports TensorFlow

    loader.library()
