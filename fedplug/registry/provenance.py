"""Which distributions the components of a process came from, and what to install where one is missing."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedplug.registry import resolve

__all__ = ["distributions", "install_hint", "not_installed", "records"]

_KINDS = ("encoder", "aggregator", "schedule")


def records(kind: str, name: str, config: Any) -> list[dict[str, str]]:
    """The component and all components named inside its configuration, each once.

    Args:
        kind: Of the component.
        name: Of the component.
        config: What its ``get_config`` returns; ``{"name": ..., "config": {...}}`` in it is another one.

    Returns:
        For each ``{"kind": ..., "name": ..., "distribution": ..., "version": ...}``; those whose class is not
        in the registry are left out.
    """
    found = [record for record in (_record((kind,), name), *_inside(config)) if record is not None]
    return [record for position, record in enumerate(found) if record not in found[:position]]


def distributions(parts: Iterable[Mapping[str, str]]) -> list[str]:
    """The distributions of these records but fedplug itself, sorted."""
    return sorted({part["distribution"] for part in parts} - {"fedplug"})


def install_hint(parts: Iterable[Mapping[str, str]]) -> str:
    """What to install before these components can be used again; empty when nothing is missing."""
    versions = {part["distribution"]: part["version"] for part in parts}
    return "; ".join(
        f"it was made with {name} {versions[name]}, which is not installed: "
        f"`pip install {name}=={versions[name]}`"
        for name in not_installed(versions)
    )


def not_installed(names: Iterable[str]) -> list[str]:
    """Those of these distributions that are not installed, sorted."""
    return sorted(name for name in set(names) if not _installed(name))


def _inside(value: Any) -> Iterator[dict[str, str] | None]:
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
            if (entry.kind, entry.name, entry.status) == (kind, name, "ok"):
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
        return distribution == "fedplug"  # run from a source tree that was never installed
    return True
