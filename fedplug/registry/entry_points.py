"""Sources of plugins: fedplug itself and the entry points of installed distributions."""

from __future__ import annotations

import importlib.metadata
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedplug.errors import PluginError
from fedplug.registry.catalog import PLUGIN, Entry, Status

__all__ = [
    "API",
    "GROUP",
    "Source",
    "builtin",
    "correct",
    "install_command",
    "installed",
    "normalized",
    "own_version",
    "place_of",
]

_FEDPLUG = str(Path(__file__).parents[1])
_IMPORTLIB = str(Path(importlib.__file__).parent)

API = 1
"""The version of the plugin contract: the hooks, the specs and the base classes they name."""

GROUP = f"fedplug.v{API}"
"""The entry-point group of plugins for this contract version."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The origin of a plugin. `load` imports it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    api: int = API
    builtin: bool = False
    extras: tuple[str, ...] = ()

    def entry(self, kind: str, name: str, **facts: Any) -> Entry:
        """Returns a catalogue entry for a component or observer of this plugin."""
        return Entry(
            kind=kind,
            name=name,
            distribution=self.distribution,
            version=self.version,
            builtin=self.builtin,
            **facts,
        )

    def problem(
        self, reason: str, fix: str, *, status: Status = "broken", kind: str = PLUGIN, name: str | None = None
    ) -> Entry:
        """Returns a catalogue entry for a problem of this plugin."""
        return self.entry(kind, name or self.name, status=status, reason=reason, fix=fix)

    @property
    def repair(self) -> str:
        """The remedy for a broken plugin."""
        return (
            f"`pip install --upgrade {self.distribution}` or `pip uninstall {self.distribution}`, "
            "or tell its authors"
        )

    def repair_after(self, error: BaseException) -> str:
        """Returns the remedy for a plugin that raised ``error``."""
        return install_command(self.distribution, error, self.extras) or correct(error) or self.repair


def builtin() -> Source:
    """Returns the source of the components that fedplug ships."""

    def load() -> object:
        return importlib.import_module("fedplug.registry.builtin")

    return Source(name="builtin", distribution="fedplug", version=own_version(), load=load, builtin=True)


def own_version() -> str:
    """Returns the version of fedplug."""
    try:
        return importlib.metadata.version("fedplug")
    except importlib.metadata.PackageNotFoundError:  # a source tree that was never installed
        return "0+source"


def installed() -> list[Source]:
    """Returns the plugins of all distributions, for any contract version, by distribution name.

    A distribution whose metadata cannot be read is among them, because nothing else says so.
    """
    try:
        sources = list(_sources(importlib.metadata.entry_points()))
    except Exception:
        found = {_name_of(each): each for each in reversed(list(importlib.metadata.distributions()))}
        sources = [source for name, each in found.items() for source in _sources_of(name, each)]
    # A distribution that serves this contract is compatible, whatever else it serves.
    served = {source.distribution for source in sources if source.api == API}
    sources = [source for source in sources if source.api == API or source.distribution not in served]
    return sorted(sources, key=lambda source: (source.distribution, source.name, source.api))


def _sources(points: Any) -> Iterator[Source]:
    for group in points.groups:
        if match := re.fullmatch(r"fedplug\.v(\d+)", group):
            yield from (_source(point, int(match[1])) for point in points.select(group=group))


def _sources_of(name: str, found: importlib.metadata.Distribution) -> list[Source]:
    """Returns the plugins of a distribution, or one that cannot be loaded if its metadata cannot be read."""
    try:
        return list(_sources(found.entry_points))
    except Exception as error:
        reason = PluginError(f"its metadata cannot be read: {error}")

    def load() -> object:
        raise reason

    return [Source(name=name, distribution=name, version="(unknown version)", load=load)]


def _name_of(found: importlib.metadata.Distribution) -> str:
    try:
        return found.name
    except Exception:  # its metadata is damaged
        return Path(str(getattr(found, "_path", "(unknown distribution)"))).name.partition("-")[0]


def _source(point: importlib.metadata.EntryPoint, api: int) -> Source:
    return Source(
        name=point.name,
        distribution=(point.dist and point.dist.name) or "(unknown distribution)",
        version=(point.dist and point.dist.version) or "(unknown version)",
        load=point.load,
        api=api,
        extras=tuple(point.extras),
    )


def install_command(
    distribution: str, error: BaseException | None, extras: tuple[str, ...] = ()
) -> str | None:
    """Returns the command that installs a missing dependency of a distribution.

    Args:
        distribution: The distribution whose import failed.
        error: The error that the import raised.
        extras: The extras that its entry point requires.

    Returns:
        The command. None if no module was missing, or no requirement provides it.
    """
    if isinstance(error, ImportError) and str(error.name).partition(".")[0] == "fedplug":
        versions = f"it was made for another version of fedplug than {own_version()}"
        return f"`pip install --upgrade fedplug {distribution}`; {versions}"
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    missing = normalized(error.name.partition(".")[0])
    for requirement in importlib.metadata.requires(distribution) or ():
        if normalized(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]) == missing:
            extra = re.search(r"""\bextra\s*==\s*['"]([^'"]+)""", requirement)
            wanted = f"{distribution}[{extra[1]}]" if extra else distribution
            return f"`pip install --upgrade '{wanted}'`"
    return f"`pip install '{distribution}[{','.join(extras)}]'`" if extras else None


def correct(error: BaseException) -> str | None:
    """Returns advice on the line to correct. None for import errors, or if the line is unknown."""
    place = None if isinstance(error, ImportError) else place_of(error)
    return place and f"correct {place}, or tell its authors"


def place_of(error: BaseException) -> str | None:
    """Returns the file and line outside of fedplug that raised an error. None if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    files = (f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__))
    places = [file for file in files if not file.startswith(("<", _FEDPLUG, _IMPORTLIB))]
    return places[-1] if places else None


def normalized(distribution: str) -> str:
    """Normalizes a name like the package index: Foo_bar becomes foo-bar."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
