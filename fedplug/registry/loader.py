"""Finds plugins and collects their declarations, each plugin isolated from the others.

A broken plugin becomes a catalogue entry with the reason and the remedy. It never stops another plugin.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import replace

import pluggy

from fedplug.errors import OpLibraryError, nearest, text_of
from fedplug.registry import hookspecs, op_libraries
from fedplug.registry.catalog import OBSERVER, PLUGIN, Catalog, Entry, Observer, settle_clashes
from fedplug.registry.entry_points import API, Source, builtin, installed, normalized, place_of
from fedplug.registry.requirements import unsatisfied
from fedplug.registry.specs import (
    AggregatorSpec,
    DeviceSpec,
    EncoderSpec,
    ObserverSpec,
    OpLibrarySpec,
    PluginSpec,
    RuntimeSpec,
    ScheduleSpec,
    StoreSpec,
)

__all__ = ["ALLOW_VARIABLE", "KINDS", "OBSERVED", "load"]

ALLOW_VARIABLE = "FEDPLUG_PLUGINS"
"""Environment variable: comma-separated distributions to load. Unset: all. Empty: only the built-ins."""

KINDS: dict[str, tuple[str, type[PluginSpec]]] = {
    "encoder": ("fedplug_encoders", EncoderSpec),
    "aggregator": ("fedplug_aggregators", AggregatorSpec),
    "schedule": ("fedplug_schedules", ScheduleSpec),
    "store": ("fedplug_stores", StoreSpec),
    "runtime": ("fedplug_runtimes", RuntimeSpec),
    "device": ("fedplug_devices", DeviceSpec),
    "op_library": ("fedplug_op_libraries", OpLibrarySpec),
}
"""The hook that declares each kind of component, and the spec that the hook returns."""

_HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("fedplug_"))

OBSERVED = {hook.removeprefix("fedplug_"): hook for hook in _HOOKS if hook not in dict(KINDS.values())}
"""The hook of each observable event: those that declare nothing."""


def load(before: Callable[[Source], None] = lambda source: None) -> Catalog:
    """Loads every installed plugin, the built-in one first, then by distribution name.

    Args:
        before: A function that is called before each plugin is loaded.
    """
    manager = pluggy.PluginManager("fedplug")
    manager.add_hookspecs(hookspecs)
    allowed = _allowed(os.environ.get(ALLOW_VARIABLE))
    entries: list[Entry] = []
    observers: list[Observer] = []
    plugins = installed()
    for source in [builtin(), *plugins]:
        before(source)
        try:
            found = _obstacles(source, allowed) or _asked(manager, source, observers)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an object of the plugin raised when it was inspected
            found = [source.problem(f"cannot be asked what it brings: {_short(error)}", source.repair)]
        entries.extend(found)
    entries += _absent(allowed, plugins)
    return Catalog(tuple(settle_clashes(entries)), tuple(observers))


def _allowed(value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset(normalized(item) for item in value.split(",") if item.strip())


def _absent(allowed: frozenset[str] | None, plugins: list[Source]) -> Iterator[Entry]:
    """Yields an entry for each distribution that the environment names but that is not installed."""
    there = {normalized(source.distribution) for source in plugins}
    for name in sorted((allowed or frozenset()) - there):
        yield Entry(
            kind=PLUGIN,
            name=name,
            distribution=name,
            version="(not installed)",
            status="broken",
            reason=f"named in {ALLOW_VARIABLE}, but no such plugin is installed; {nearest(name, there)}",
            fix=f"`pip install {name}`, or correct the variable",
        )


def _obstacles(source: Source, allowed: frozenset[str] | None) -> list[Entry]:
    """Returns why a plugin must not be imported. Empty if it may be."""
    if source.builtin:
        return []
    if source.api != API:
        older = source.distribution if source.api < API else "fedplug"
        reason = f"made for plugin contract v{source.api}, but this fedplug supports v{API}"
        return [source.problem(reason, f"`pip install --upgrade {older}`", status="incompatible")]
    if allowed is not None and normalized(source.distribution) not in allowed:
        reason = f"not named in {ALLOW_VARIABLE}"
        return [source.problem(reason, "add it there or unset the variable", status="disabled")]
    return []


def _asked(manager: pluggy.PluginManager, source: Source, observers: list[Observer]) -> list[Entry]:
    """Returns the entries of a plugin and adds its observers. Unusable if a requirement does not hold."""
    unmet = None if source.builtin else unsatisfied(source.distribution)
    if unmet is None:
        return list(_ask(manager, source, observers))
    reason, fix = unmet
    found = [entry for entry in _ask(manager, source, []) if entry.status == "ok"]
    return [replace(entry, status="incompatible", reason=reason, fix=fix) for entry in found] or [
        source.problem(reason, fix, status="incompatible")
    ]


def _ask(manager: pluggy.PluginManager, source: Source, observers: list[Observer]) -> Iterator[Entry]:
    """Imports one plugin, calls each of its declaring hooks separately, and adds its observers."""
    try:
        plugin = source.load()
        mistakes = dict(_mistakes(manager, plugin))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the other plugins must work whatever this one raises
        yield source.problem(f"cannot be imported: {_short(error)}", source.repair_after(error))
        return
    for mistake in mistakes.values():
        yield source.problem(mistake, source.repair)
    # pluggy rejects a whole plugin for one invalid hook, so it gets only the valid ones.
    whole = types.ModuleType(source.name)
    vars(whole).update(
        (name, getattr(plugin, name)) for name in _marked(manager, plugin) if name not in mistakes
    )
    manager.register(whole, name=f"{source.distribution}:{source.name}")
    count = 0
    for kind, (hook, spec_type) in KINDS.items():
        for implementation in _implementations(manager, hook, whole):
            count += 1
            yield from _call(source, kind, hook, spec_type, implementation.function)
    for name, hook in OBSERVED.items():
        for implementation in _implementations(manager, hook, whole):
            count += 1
            observers.append(_observer(source, hook, implementation))
            yield source.entry(OBSERVER, name, spec=_observer_spec(name, implementation))
    if not count and not mistakes:
        yield source.problem(f"implements no hook; known hooks: {', '.join(sorted(_HOOKS))}", source.repair)


def _implementations(manager: pluggy.PluginManager, hook: str, plugin: object) -> list[pluggy.HookImpl]:
    return [each for each in getattr(manager.hook, hook).get_hookimpls() if each.plugin is plugin]


def _observer(source: Source, hook: str, implementation: pluggy.HookImpl) -> Observer:
    return Observer(
        hook=hook,
        origin=f"{source.distribution} {source.version}",
        function=implementation.function,
        arguments=tuple(implementation.argnames),
    )


def _observer_spec(name: str, implementation: pluggy.HookImpl) -> ObserverSpec:
    function = implementation.function
    summary = next(iter((inspect.getdoc(function) or "").splitlines()), "")
    return ObserverSpec(name=name, target=f"{function.__module__}:{function.__name__}", summary=summary)


def _marked(manager: pluggy.PluginManager, plugin: object) -> dict[str, str]:
    """Returns the hook of each function of a plugin that is marked with `hookimpl`, by function name."""
    options = ((name, manager.parse_hookimpl_opts(plugin, name)) for name in dir(plugin))
    return {name: marked.get("specname") or name for name, marked in options if marked is not None}


def _mistakes(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, str]]:
    """Yields the name and the problem of each function that looks like a hook but can never be called."""
    marked = _marked(manager, plugin)
    for name, hook in marked.items():
        if hook not in _HOOKS:
            yield name, f"implements the unknown hook {hook!r}; {nearest(hook, _HOOKS)}"
            continue
        given = inspect.signature(getattr(hookspecs, hook)).parameters
        for parameter in inspect.signature(getattr(plugin, name)).parameters.values():
            if parameter.default is parameter.empty and parameter.name not in given:
                takes = f"its hook {hook} takes {parameter.name!r}, which fedplug does not pass"
                yield name, f"{takes}; it may take {', '.join(given) or 'nothing'}"
    for name in set(dir(plugin)) - set(marked):
        if name.startswith("fedplug_") and inspect.isroutine(getattr(plugin, name)):
            if name in _HOOKS:
                yield name, f"its function {name!r} is not marked with @hookimpl, so it is not a hook"
            else:
                yield name, f"its function {name!r} has a name that is not a hook's; {nearest(name, _HOOKS)}"


def _call(
    source: Source, kind: str, hook: str, spec_type: type[PluginSpec], function: Callable[[], object]
) -> Iterator[Entry]:
    """Calls one hook implementation and checks each item that it returns."""
    wanted = spec_type.__name__
    try:
        declared = function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        yield source.problem(f"its hook {hook} raised {_short(error)}", source.repair_after(error))
        return
    if not isinstance(declared, list | tuple):
        got = "nothing" if declared is None else type(declared).__name__
        yield source.problem(f"its hook {hook} returned {got} instead of a list of {wanted}", source.repair)
        return
    for item in declared:
        if isinstance(item, spec_type):
            yield (
                _op_library(source, item)
                if isinstance(item, OpLibrarySpec)
                else source.entry(kind, item.name, spec=item)
            )
        elif isinstance(item, PluginSpec):  # the wrong hook, but the name is known
            got = f"the {type(item).__name__} {item.name!r}"
            reason = f"its hook {hook} returned {got} instead of {wanted}"
            yield source.problem(reason, source.repair, kind=kind, name=item.name)
        else:
            yield source.problem(f"its hook {hook} returned {item!r} instead of {wanted}", source.repair)


def _op_library(source: Source, spec: OpLibrarySpec) -> Entry:
    """Returns the entry of an op library, usable only if it was built for the installed TensorFlow.

    Without TensorFlow the library is never requested, so a missing build is not an error.
    """
    package, _, file = spec.target.partition(":")
    installed = op_libraries.installed_tensorflow()
    if installed is None:
        return source.entry("op_library", spec.name, spec=spec)
    try:
        path = op_libraries.find(op_libraries.folders_of(package), file)
        op_libraries.require_built_for(path, installed)
    except OpLibraryError as error:
        fix = op_libraries.rebuild(source.distribution)
        return source.entry(
            "op_library", spec.name, spec=spec, status="incompatible", reason=str(error), fix=fix
        )
    return source.entry("op_library", spec.name, spec=spec)


def _short(error: BaseException) -> str:
    """One line, with the type and the place outside of fedplug, for reasons in a list."""
    text = f"{type(error).__name__}: {text_of(error)}"
    place = place_of(error)
    return f"{text} ({place})" if place else text
