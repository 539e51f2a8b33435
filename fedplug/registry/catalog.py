"""What is installed, as plain data: which components exist, whose they are, and why some cannot be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedplug.errors import PluginError, UnknownNameError
from fedplug.registry.specs import ComponentSpec, EncoderSpec, Spec

__all__ = ["OBSERVER", "PLUGIN", "Catalog", "Entry", "Observer", "Status", "settle_clashes"]

Status = Literal["ok", "broken", "clash", "incompatible", "disabled"]

PLUGIN = "plugin"
"""The kind of an entry about a plugin as a whole, where it is not known which component has the problem."""

OBSERVER = "observer"
"""The kind of an entry about a hook that is called when something happened; many may have the same name."""

_SEE = "fedplug plugins list"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the catalogue: a component, or a problem of a plugin.

    Attributes:
        kind: One of `fedplug.registry.resolve.KINDS`, `OBSERVER`, or `PLUGIN` when components are unknown.
        name: Of the component, of an observer's event, or of a plugin's entry point.
        distribution: The installed package it comes from.
        version: Of that distribution.
        builtin: Shipped with fedplug.
        status: ``"ok"``, or why it cannot be used.
        reason: What is wrong; empty when nothing is.
        fix: What to do about it; empty when there is nothing to do.
        spec: What the plugin declared; None when it could not be asked.
    """

    kind: str
    name: str
    distribution: str
    version: str
    builtin: bool = False
    status: Status = "ok"
    reason: str = ""
    fix: str = ""
    spec: Spec | None = None

    @property
    def origin(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}"

    @property
    def examples(self) -> tuple[str, ...]:
        """How the component is made to be shown and tested: what its spec says, else without arguments."""
        if isinstance(self.spec, ComponentSpec) and self.spec.examples:
            return self.spec.examples
        return (f"{self.name}://",) if self.kind == "store" else (self.name,)

    @property
    def executes_on(self) -> tuple[str, ...]:
        """Of an encoder, see `EncoderSpec`; of anything else empty."""
        return self.spec.executes_on if isinstance(self.spec, EncoderSpec) else ()

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "distribution": self.distribution,
            "version": self.version,
            "status": self.status,
            "reason": self.reason,
            "fix": self.fix,
            "summary": self.spec.summary if self.spec else "",
            "target": self.spec.target if self.spec else "",
            "executes_on": list(self.executes_on),
        }

    def error(self) -> PluginError:
        """The error for a caller who asked for this entry."""
        what = f"{self.kind} {self.name!r} of {self.origin}"
        return PluginError(f"{what} cannot be used: {self.reason}; {self.fix}")


@dataclass(frozen=True, kw_only=True)
class Observer:
    """A function of a plugin that observes.

    Attributes:
        hook: Its hook, for instance ``"fedplug_round_finished"``.
        origin: Whose it is, for messages.
        function: What is called.
        arguments: The names of those of the hook's arguments that it takes.
    """

    hook: str
    origin: str
    function: Callable[..., object]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    """All entries, the built-in ones first, then by distribution; and the observers in the same order."""

    entries: Sequence[Entry]
    observers: Sequence[Observer] = ()

    def problems(self) -> list[Entry]:
        """The entries that cannot be used, but for those of plugins that the environment leaves out."""
        return [entry for entry in self.entries if entry.status not in ("ok", "disabled")]

    def names(self, kind: str) -> list[str]:
        """The names of the usable parts of a kind."""
        return [entry.name for entry in self.entries if entry.kind == kind and entry.status == "ok"]

    def about(self, name: str) -> list[Entry]:
        """All entries of the component, the plugin or the distribution of that name, whatever their state.

        Raises:
            UnknownNameError: There are none.
        """
        found = [entry for entry in self.entries if name in (entry.name, entry.distribution)]
        if not found:
            parts = {entry.name for entry in self.entries if entry.kind != PLUGIN}
            known = parts | {entry.distribution for entry in self.entries}
            raise UnknownNameError("component or distribution", name, known, see=_SEE)
        return found

    def find(self, kind: str, name: str) -> Entry:
        """The usable part of that kind and name.

        Raises:
            PluginError: It cannot be used, or the plugin of that name could not be asked for its components.
            UnknownNameError: Nothing of that name is installed.
        """
        candidates = [entry for entry in self.entries if entry.kind == kind and entry.name == name]
        for entry in candidates:
            if entry.status == "ok":
                return entry
        troubled = [entry for entry in self.entries if entry.kind == PLUGIN]
        candidates += [entry for entry in troubled if entry.name == name]
        if candidates:
            raise candidates[0].error()
        # A plugin that could not be asked may be the one that brings the name: do not only say "unknown".
        origins = ", ".join(sorted({entry.origin for entry in troubled}))
        note = f"these plugins have problems or are disabled, see `{_SEE}`: {origins}" if origins else ""
        raise UnknownNameError(kind, name, self.names(kind), note=note, see=_SEE)


def settle_clashes(entries: Iterable[Entry]) -> list[Entry]:
    """Marks components that share kind and name, so that no order of installation decides which one is meant.

    A built-in keeps its name, so that installing a plugin never changes what an existing program does;
    between plugins nobody gets it.
    """
    entries = list(entries)
    claims: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.status == "ok" and entry.kind != OBSERVER:
            claims[entry.kind, entry.name].append(entry)
    return [_settle(entry, claims.get((entry.kind, entry.name), [])) for entry in entries]


def _settle(entry: Entry, claimants: list[Entry]) -> Entry:
    if entry.status != "ok" or entry.builtin or len(claimants) <= 1:
        return entry
    origins = " and ".join(dict.fromkeys(claimant.origin for claimant in claimants))
    builtin = next((claimant for claimant in claimants if claimant.builtin), None)
    if builtin is not None:
        fix = f"ask the authors of {entry.distribution} for another name; {builtin.origin} keeps this one"
    elif len({claimant.distribution for claimant in claimants}) == 1:
        origins, fix = f"{entry.origin} more than once", f"tell the authors of {entry.distribution}"
    else:
        fix = (
            f"`pip uninstall {entry.distribution}` if you want the other one, or list in FEDPLUG_PLUGINS the "
            "distributions to load, with one of these"
        )
    reason = f"{entry.kind} {entry.name!r} is declared by {origins}"
    return replace(entry, status="clash", reason=reason, fix=fix)
