"""Finds plugins, asks each by itself what it brings, and resolves names to classes on first use.

A plugin that breaks becomes an entry of the catalogue with the reason; it never stops another one. Must not
import NumPy, TensorFlow or any part: parts are strings until `resolve`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pluggy

from fedplug import hookspecs
from fedplug.catalog import PLUGIN, Catalog, Entry, Status, settle_clashes
from fedplug.errors import PluginError, UnknownNameError, nearest
from fedplug.spec import AggregatorSpec, EncoderSpec, PartSpec, StoreSpec

__all__ = ["ALLOW_VARIABLE", "API", "GROUP", "KINDS", "catalog", "load", "resolve"]

API = 1
"""The number of the plugin contract: the hooks, the specs and the base classes they name."""

GROUP = f"fedplug.v{API}"
"""The entry-point group of plugins for this contract."""

ALLOW_VARIABLE = "FEDPLUG_PLUGINS"
"""Environment variable: distributions to load, separated by commas. Unset: all. Empty: only the built-ins."""

KINDS: dict[str, tuple[str, type[PartSpec]]] = {
    "encoder": ("fedplug_encoders", EncoderSpec),
    "aggregator": ("fedplug_aggregators", AggregatorSpec),
    "store": ("fedplug_stores", StoreSpec),
}
"""For each kind of part the hook that declares it and the spec the hook returns."""

_HOOKS = frozenset(name for name in vars(hookspecs) if name.startswith("fedplug_"))


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where a plugin comes from; importing it is `load`'s business."""

    name: str
    distribution: str
    version: str
    load: Callable[[], Any]
    api: int = API
    builtin: bool = False

    def entry(self, kind: str, name: str, **facts: Any) -> Entry:
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
        return self.entry(kind, name or self.name, status=status, reason=reason, fix=fix)

    @property
    def repair(self) -> str:
        return (
            f"`pip install --upgrade {self.distribution}` or `pip uninstall {self.distribution}`, "
            "or tell its authors"
        )


def resolve(kind: str, name: str) -> type[Any]:
    """The class of a part.

    Args:
        kind: ``"encoder"``, ``"aggregator"`` or ``"store"``.
        name: As in ``fedplug plugins list``.

    Raises:
        UnknownNameError: No such kind, or no part of that name; the message lists the nearest.
        PluginError: The part is declared, but its plugin is broken; the message says what fixes it.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of part", kind, KINDS)
    entry = catalog().find(kind, name)
    assert entry.spec is not None  # every usable entry carries what was declared
    try:
        return entry.spec.resolve()
    except PluginError as error:
        raise PluginError(
            f"{kind} {error}; reinstall {entry.origin} with what it depends on: "
            f"`pip install --force-reinstall {entry.distribution}`"
        ) from error.__cause__


@functools.cache
def catalog() -> Catalog:
    """What is installed; looked up once per process."""
    return load()


def load() -> Catalog:
    """Looks up and asks every installed plugin, the built-in parts first, then by name of distribution."""
    manager = pluggy.PluginManager("fedplug")
    manager.add_hookspecs(hookspecs)
    allowed = _allowed(os.environ.get(ALLOW_VARIABLE))
    entries: list[Entry] = []
    for source in [_builtin(), *_installed()]:
        entries.extend(_obstacles(source, allowed) or _ask(manager, source))
    return Catalog(tuple(settle_clashes(entries)))


def _builtin() -> _Source:
    def load() -> Any:
        return importlib.import_module("fedplug.builtin")

    return _Source(name="builtin", distribution="fedplug", version=own_version(), load=load, builtin=True)


def own_version() -> str:
    try:
        return importlib.metadata.version("fedplug")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"


def _installed() -> list[_Source]:
    everything = importlib.metadata.entry_points()
    sources = []
    for group in everything.groups:
        if match := re.fullmatch(r"fedplug\.v(\d+)", group):
            sources += [_source(point, int(match[1])) for point in everything.select(group=group)]
    # A distribution that also serves this contract is compatible; what else it serves is not our concern.
    served = {source.distribution for source in sources if source.api == API}
    sources = [source for source in sources if source.api == API or source.distribution not in served]
    return sorted(sources, key=lambda source: (source.distribution, source.name, source.api))


def _source(point: importlib.metadata.EntryPoint, api: int) -> _Source:
    return _Source(
        name=point.name,
        distribution=(point.dist and point.dist.name) or "(unknown distribution)",
        version=(point.dist and point.dist.version) or "(unknown version)",
        load=point.load,
        api=api,
    )


def _allowed(value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset(_normalized(item) for item in value.split(",") if item.strip())


def _normalized(distribution: str) -> str:
    """As the package index compares names: Foo_bar is foo-bar."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def _obstacles(source: _Source, allowed: frozenset[str] | None) -> list[Entry]:
    """Why a plugin is not even imported; empty when it may be."""
    if source.builtin:
        return []
    if source.api != API:
        older = source.distribution if source.api < API else "fedplug"
        reason = f"made for plugin contract v{source.api}, this fedplug speaks v{API}"
        return [source.problem(reason, f"`pip install --upgrade {older}`", status="incompatible")]
    if allowed is not None and _normalized(source.distribution) not in allowed:
        reason = f"not named in {ALLOW_VARIABLE}"
        return [source.problem(reason, "add it there or unset the variable", status="disabled")]
    return []


def _ask(manager: pluggy.PluginManager, source: _Source) -> Iterator[Entry]:
    """Imports one plugin and calls each of its hooks by itself."""
    try:
        plugin = source.load()
        strays = list(_strays(manager, plugin))
        manager.register(plugin, name=f"{source.distribution}:{source.name}")
    except (Exception, SystemExit) as error:  # whatever a plugin does on import, the others must work
        yield source.problem(f"cannot be imported: {_short(error)}", source.repair)
        return
    for stray in strays:
        yield source.problem(stray, source.repair)
    hooks = 0
    for kind, (hook, spec_type) in KINDS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            if implementation.plugin is plugin:
                hooks += 1
                yield from _call(source, kind, hook, spec_type, implementation.function)
    if not hooks and not strays:
        yield source.problem(f"implements no hook; known hooks: {', '.join(sorted(_HOOKS))}", source.repair)


def _strays(manager: pluggy.PluginManager, plugin: Any) -> Iterator[str]:
    """The functions that look like hooks and would never be called."""
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is not None:
            hook = options.get("specname") or name
            if hook not in _HOOKS:
                yield f"implements the unknown hook {hook!r}; {nearest(hook, _HOOKS)}"
        elif name.startswith("fedplug_") and inspect.isroutine(getattr(plugin, name)):
            if name in _HOOKS:
                yield f"its function {name!r} is not marked with @hookimpl, so it is no hook"
            else:
                yield f"has a function {name!r}, which is the name of no hook; {nearest(name, _HOOKS)}"


def _call(
    source: _Source, kind: str, hook: str, spec_type: type[PartSpec], function: Callable[[], Any]
) -> Iterator[Entry]:
    """Calls one hook implementation and judges what it returns, item by item."""
    wanted = spec_type.__name__
    try:
        declared = function()
    except (Exception, SystemExit) as error:
        yield source.problem(f"its hook {hook} raised {_short(error)}", source.repair)
        return
    if not isinstance(declared, list | tuple):
        got = type(declared).__name__
        yield source.problem(f"its hook {hook} returned a {got}, not a list of {wanted}", source.repair)
        return
    for item in declared:
        if isinstance(item, spec_type):
            yield source.entry(kind, item.name, spec=item)
        elif isinstance(item, PartSpec):  # in the wrong hook, but its name is known
            reason = f"its hook {hook} returned the {type(item).__name__} {item.name!r}, not a {wanted}"
            yield source.problem(reason, source.repair, kind=kind, name=item.name)
        else:
            yield source.problem(f"its hook {hook} returned {item!r}, not a {wanted}", source.repair)


def _short(error: BaseException) -> str:
    """One line, with the type, for reasons in a list."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"
