"""Where plugins come from: fedplug itself and the entry points of installed distributions."""

from __future__ import annotations

import importlib.metadata
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
"""The number of the plugin contract: the hooks, the specs and the base classes they name."""

GROUP = f"fedplug.v{API}"
"""The entry-point group of plugins for this contract."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a plugin comes from; importing it is `load`'s business."""

    name: str
    distribution: str
    version: str
    load: Callable[[], Any]
    api: int = API
    builtin: bool = False
    extras: tuple[str, ...] = ()

    def entry(self, kind: str, name: str, **facts: Any) -> Entry:
        """An entry of the catalogue for something this plugin brings."""
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
        """An entry for something that is wrong with it."""
        return self.entry(kind, name or self.name, status=status, reason=reason, fix=fix)

    @property
    def repair(self) -> str:
        """What to do about a plugin that is broken."""
        return (
            f"`pip install --upgrade {self.distribution}` or `pip uninstall {self.distribution}`, "
            "or tell its authors"
        )

    def repair_after(self, error: BaseException) -> str:
        """What to do about one that raised this."""
        return install_command(self.distribution, error, self.extras) or correct(error) or self.repair


def builtin() -> Source:
    """The components fedplug ships."""

    def load() -> Any:
        return importlib.import_module("fedplug.registry.builtin")

    return Source(name="builtin", distribution="fedplug", version=own_version(), load=load, builtin=True)


def own_version() -> str:
    """Of fedplug itself."""
    try:
        return importlib.metadata.version("fedplug")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


def installed() -> list[Source]:
    """The plugins of all distributions, for whatever contract, by name of distribution."""
    everything = importlib.metadata.entry_points()
    sources = []
    for group in everything.groups:
        if match := re.fullmatch(r"fedplug\.v(\d+)", group):
            sources += [_source(point, int(match[1])) for point in everything.select(group=group)]
    # A distribution that also serves this contract is compatible; what else it serves is not our concern.
    served = {source.distribution for source in sources if source.api == API}
    sources = [source for source in sources if source.api == API or source.distribution not in served]
    return sorted(sources, key=lambda source: (source.distribution, source.name, source.api))


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
    """The command that installs what a distribution needs and did not find.

    Args:
        distribution: Whose import failed.
        error: What it raised.
        extras: Those its entry point asks for.

    Returns:
        None if it was not a missing module, or nobody says which distribution brings that.
    """
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
    """Says which line to correct; None if an installation lacks something, or no line is to blame."""
    place = None if isinstance(error, ImportError) else place_of(error)
    return place and f"correct {place}, or tell its authors"


def place_of(error: BaseException) -> str | None:
    """Returns the file and line outside of fedplug that raised an error; None if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    files = (f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__))
    places = [file for file in files if not file.startswith(("<", _FEDPLUG, _IMPORTLIB))]
    return places[-1] if places else None


def normalized(distribution: str) -> str:
    """As the package index compares names: Foo_bar is foo-bar."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
