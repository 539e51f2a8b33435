"""Resolves names to classes on first use, and notifies observers."""

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
from fedplug.registry.loader import ALLOW_VARIABLE, KINDS, OBSERVED, load
from fedplug.registry.specs import ComponentSpec

__all__ = [
    "ALLOW_VARIABLE",
    "API",
    "GROUP",
    "KINDS",
    "OBSERVED",
    "catalog",
    "find",
    "load",
    "notify",
    "own_version",
    "resolve",
]


def find(kind: str, name: str) -> Entry:
    """Returns the catalogue entry of a usable component.

    Args:
        kind: One of `KINDS`.
        name: The name in ``fedplug plugins list``.

    Raises:
        MissingDependencyError: An extra of fedplug provides the component, and is not installed.
        UnknownNameError: There is no such kind or component. The message lists the nearest names.
        PluginError: The component is declared, but its plugin is broken. The message has the remedy.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of component", kind, KINDS)
    return catalog().find(kind, name)


def resolve(kind: str, name: str) -> type[Any]:
    """Returns the class of a component, a runtime's function or a device's backend. See `find` for errors.

    Raises:
        MissingDependencyError: The component needs an optional package, such as TensorFlow.
    """
    entry = find(kind, name)
    if not isinstance(entry.spec, ComponentSpec):
        raise PluginError(f"{kind} {name!r} of {entry.origin} has no class to create")
    try:
        return entry.spec.resolve()
    except PluginError as error:
        if module := missing_dependency(error.__cause__):
            raise MissingDependencyError(f"{kind} {name!r}", module) from error.__cause__
        if isinstance(error.__cause__, OpLibraryError):  # its message has a remedy already
            raise error.__cause__ from None
        raise PluginError(f"{kind} {error}; {_remedy(entry, error.__cause__)}") from error.__cause__


def _remedy(entry: Entry, error: BaseException | None) -> str:
    """Returns the remedy for a failed import: install the missing package, or correct the code."""
    if error is not None and (correction := correct(error)):
        return correction
    command = install_command(entry.distribution, error)
    command = command or f"`pip install --force-reinstall {entry.distribution}`"
    return f"install {entry.origin} with its dependencies: {command}"


def notify(hook: str, **facts: object) -> None:
    """Calls every observer of a hook. Errors are logged and stop neither other observers nor the caller.

    Args:
        hook: A hook in `OBSERVED`.
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
    """Returns the catalogue of installed components, loaded once per process."""
    return load()
