"""Resolves names to classes on first use, and tells observers. What is installed is `loader`'s business."""

from __future__ import annotations

import functools
import logging
from typing import Any

from fedplug.errors import (
    MissingDependencyError,
    OpLibraryError,
    PluginError,
    UnknownNameError,
    missing_dependency,
)
from fedplug.registry.catalog import Catalog, Entry
from fedplug.registry.entry_points import API, GROUP, correct, install_command, own_version
from fedplug.registry.loader import ALLOW_VARIABLE, KINDS, OBSERVED, TRACE_VARIABLE, load
from fedplug.registry.specs import ComponentSpec

__all__ = [
    "ALLOW_VARIABLE",
    "API",
    "GROUP",
    "KINDS",
    "OBSERVED",
    "TRACE_VARIABLE",
    "catalog",
    "find",
    "load",
    "notify",
    "own_version",
    "resolve",
]


def find(kind: str, name: str) -> Entry:
    """The catalogue's entry of a component that can be used.

    Args:
        kind: One of `KINDS`.
        name: As in ``fedplug plugins list``.

    Raises:
        UnknownNameError: No such kind, or no part of that name; the message lists the nearest.
        PluginError: The component is declared, but its plugin is broken; the message says what fixes it.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of component", kind, KINDS)
    return catalog().find(kind, name)


def resolve(kind: str, name: str) -> type[Any]:
    """The class of a component. Arguments and errors as for `find`.

    Raises:
        MissingDependencyError: What fedplug can do without, TensorFlow say, is needed for it.
    """
    entry = find(kind, name)
    if not isinstance(entry.spec, ComponentSpec):
        raise PluginError(f"{kind} {name!r} of {entry.origin} has no class that could be made")
    try:
        return entry.spec.resolve()
    except PluginError as error:
        if module := missing_dependency(error.__cause__):
            raise MissingDependencyError(f"{kind} {name!r}", module) from error.__cause__
        if isinstance(error.__cause__, OpLibraryError):  # says what to do itself
            raise error.__cause__ from None
        raise PluginError(f"{kind} {error}; {_remedy(entry, error.__cause__)}") from error.__cause__


def _remedy(entry: Entry, error: BaseException | None) -> str:
    """Says what to do about a component that cannot be imported: install what is missing, or correct code."""
    if error is not None and (correction := correct(error)):
        return correction
    command = install_command(entry.distribution, error)
    command = command or f"`pip install --force-reinstall {entry.distribution}`"
    return f"install {entry.origin} with what it depends on: {command}"


def notify(hook: str, **facts: Any) -> None:
    """Tells every observer; one that raises is logged, and neither stops the others nor the caller.

    Args:
        hook: One of those in `OBSERVED`.
        facts: The arguments of that hook.
    """
    for observer in catalog().observers:
        if observer.hook == hook:
            try:
                observer.function(**{name: facts[name] for name in observer.arguments})
            except Exception:
                logging.getLogger("fedplug").exception("%s of %s raised", hook, observer.origin)


@functools.cache
def catalog() -> Catalog:
    """What is installed; looked up once per process."""
    return load()
