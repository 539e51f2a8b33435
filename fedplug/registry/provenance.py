"""Records the distributions of a process's components, and how to install missing ones."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping

from fedplug.registry import resolve

__all__ = ["distributions", "install_hint", "not_installed", "records"]

_KINDS = ("encoder", "aggregator", "schedule")


def records(kind: str, name: str, config: object) -> list[dict[str, str]]:
    """Returns records of a component and all components in its configuration, without duplicates.

    Args:
        kind: The kind of the component.
        name: The name of the component.
        config: The result of its ``get_config``, where ``{"name": ..., "config": {...}}`` is a component.

    Returns:
        A list of ``{"kind": ..., "name": ..., "distribution": ..., "version": ...}``, without components
        whose class is not in the registry.
    """
    found = [record for record in (_record((kind,), name), *_inside(config)) if record is not None]
    return [record for position, record in enumerate(found) if record not in found[:position]]


def distributions(parts: Iterable[Mapping[str, str]]) -> list[str]:
    """Returns the distributions of these records except fedplug, sorted."""
    return sorted({part["distribution"] for part in parts} - {"fedplug"})


def install_hint(parts: Iterable[Mapping[str, str]]) -> str:
    """Returns how to install the missing distributions of these components. Empty if none is missing."""
    versions = {part["distribution"]: part["version"] for part in parts}
    return "; ".join(
        f"it was made with {name} {versions[name]}, which is not installed: "
        f"`pip install {name}=={versions[name]}`"
        for name in not_installed(versions)
    )


def not_installed(names: Iterable[str]) -> list[str]:
    """Returns the distributions that are not installed, sorted."""
    return sorted(name for name in set(names) if not _installed(name))


def _inside(value: object) -> Iterator[dict[str, str] | None]:
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str) and isinstance(value.get("config"), Mapping):
            yield _record(_KINDS, value["name"])
        for member in value.values():
            yield from _inside(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _inside(member)


def _record(kinds: Iterable[str], name: str) -> dict[str, str] | None:
    for kind in kinds:
        for entry in resolve.catalog().entries:
            if (entry.kind, entry.name) == (kind, name) and entry.usable:
                return {
                    "kind": kind,
                    "name": name,
                    "distribution": entry.distribution,
                    "version": entry.version,
                }
    return None


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return distribution == "fedplug"  # a source tree that was never installed
    return True
