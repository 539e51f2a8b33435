"""Chooses between the compiled op and its reference of stock TensorFlow ops.

The choice is made while a graph is being built, never at import: the same program may build one graph for a
runtime that can run the compiled ops and another one for a runtime that cannot.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, Literal

from fedplug.errors import OpLibraryError, StaleBuildError, UnknownNameError

__all__ = ["Lowering", "available", "op_library", "resolve_lowering", "use_lowering"]

Lowering = Literal["auto", "fused", "reference"]
"""``"fused"``: the compiled op; ``"reference"``: stock ops; ``"auto"``: fused where the op library loads."""

_LOWERINGS = ("auto", "fused", "reference")
_preferred: contextvars.ContextVar[str] = contextvars.ContextVar("fedplug_lowering", default="auto")


@contextlib.contextmanager
def use_lowering(lowering: str) -> Iterator[None]:
    """Within the ``with`` block, ops that are given no lowering of their own use this one.

    Raises:
        UnknownNameError: ``lowering`` is none of "auto", "fused" and "reference".
    """
    token = _preferred.set(_known(lowering))
    try:
        yield
    finally:
        _preferred.reset(token)


def resolve_lowering(lowering: str | None = None) -> Literal["fused", "reference"]:
    """What will be built for ``lowering``, or else for what `use_lowering` says, or else for "auto".

    Raises:
        OpLibraryError: "fused" was asked for and the op library cannot be loaded.
        UnknownNameError: ``lowering`` is none of "auto", "fused" and "reference".
    """
    wanted = _known(_preferred.get() if lowering is None else lowering)
    if wanted == "reference":
        return "reference"
    if wanted == "auto":
        return "fused" if available() else "reference"
    _library()
    return "fused"


def available() -> bool:
    """Whether the compiled ops can be used here; loads the op library to find out.

    Raises:
        StaleBuildError: They were built from other sources than those of this checkout. What can do without
            them should not begin to do so, many times slower, because somebody pulled.
    """
    try:
        _library()
    except StaleBuildError:
        raise
    except OpLibraryError:
        return False
    return True


def op_library(name: str) -> Any:
    """The TensorFlow ops of a library that a plugin brings, one Python function each; loaded when asked for.

    Args:
        name: As in ``fedplug plugins list``.

    Raises:
        UnknownNameError: No plugin brings a library of that name; the message lists the nearest.
        PluginError: It was built for another TensorFlow than is installed, or is missing.
        OpLibraryError: It was built for another TensorFlow than is running, or is damaged.
    """
    from fedplug.ops._tensorflow import loader  # needs TensorFlow

    return loader.op_library(name)


def _known(lowering: str) -> str:
    if lowering not in _LOWERINGS:
        raise UnknownNameError("lowering", lowering, _LOWERINGS)
    return lowering


def _library() -> None:
    from fedplug.ops._tensorflow import loader  # only where a graph is being built is TensorFlow needed

    loader.library()
