"""The catalogue of installed components as plain data: where they come from, and why some cannot be used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedplug.errors import MissingDependencyError, PluginError, UnknownNameError
from fedplug.registry.specs import ComponentSpec, EncoderSpec, PluginSpec

__all__ = ["OBSERVER", "PLUGIN", "Catalog", "Entry", "Observer", "Status", "settle_clashes"]

Status = Literal["ok", "broken", "clash", "wire clash", "incompatible", "disabled"]

PLUGIN = "plugin"
"""The kind of an entry about a whole plugin, used if the affected component is unknown."""

OBSERVER = "observer"
"""The kind of an entry about an observer hook. Several may have the same name."""

_SEE = "fedplug plugins list"

_IN_A_PACKAGE = {
    ("aggregator", "krum"): "fedplug-robust",
    ("aggregator", "median"): "fedplug-robust",
    ("aggregator", "trimmed_mean"): "fedplug-robust",
    ("device", "cuda"): "fedplug-cuda",
    ("encoder", "countsketch"): "fedplug-sketch",
    ("encoder", "dgc"): "fedplug-baselines",
    ("encoder", "eden"): "fedplug-baselines",
    ("encoder", "powersgd"): "fedplug-baselines",
    ("encoder", "terngrad"): "fedplug-baselines",
    ("encoder", "threshold"): "fedplug-baselines",
    ("runtime", "ray"): "fedplug-ray",
    ("store", "postgresql"): "fedplug-postgres",
    ("store", "ray"): "fedplug-ray",
}
"""The components of fedplug's own plugins, and the distribution of each."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the catalogue: a component, or a problem of a plugin.

    Attributes:
        kind: One of `fedplug.registry.resolve.KINDS`, `OBSERVER`, or `PLUGIN` if its components are unknown.
        name: The name of the component, of an observer's event, or of a plugin's entry point.
        distribution: The installed package that provides it.
        version: The version of that distribution.
        builtin: Whether fedplug ships it.
        status: ``"ok"``, or why it cannot be used. The payloads of a ``"wire clash"`` cannot be read here.
        reason: The problem. Empty if there is none.
        fix: The remedy. Empty if there is none.
        spec: The plugin's declaration. None if it could not be read.
    """

    kind: str
    name: str
    distribution: str
    version: str
    builtin: bool = False
    status: Status = "ok"
    reason: str = ""
    fix: str = ""
    spec: PluginSpec | None = None

    @property
    def origin(self) -> str:
        """The distribution and version, for messages."""
        return f"{self.distribution} {self.version}"

    @property
    def usable(self) -> bool:
        """Whether the component can be created."""
        return self.status in ("ok", "wire clash")

    @property
    def wire_id(self) -> str | None:
        """The declared wire id of an encoder, see `EncoderSpec`."""
        return self.spec.wire_id if isinstance(self.spec, EncoderSpec) else None

    @property
    def examples(self) -> tuple[str, ...]:
        """Expressions for display and tests: those of the spec, or the plain name."""
        if isinstance(self.spec, ComponentSpec) and self.spec.examples:
            return self.spec.examples
        return (f"{self.name}://",) if self.kind == "store" else (self.name,)

    @property
    def executes_on(self) -> tuple[str, ...]:
        """The executions of an encoder, see `EncoderSpec`. Empty for other components."""
        return self.spec.executes_on if isinstance(self.spec, EncoderSpec) else ()

    def to_json(self) -> dict[str, object]:
        """Returns the entry as JSON values."""
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
        """Returns the error for a caller who requests this entry."""
        what = f"{self.kind} {self.name!r} of {self.origin}"
        return PluginError(f"{what} cannot be used: {self.reason}; {self.fix}")


@dataclass(frozen=True, kw_only=True)
class Observer:
    """An observing function of a plugin.

    Attributes:
        hook: The name of its hook, for example ``"fedplug_round_finished"``.
        origin: The distribution and version, for messages.
        function: The function to call.
        arguments: The names of the hook's arguments that it takes.
    """

    hook: str
    origin: str
    function: Callable[..., object]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    """All entries and observers: the built-in ones first, then by distribution."""

    entries: Sequence[Entry]
    observers: Sequence[Observer] = ()

    def problems(self) -> list[Entry]:
        """Returns the unusable entries, except those of plugins that the environment disables."""
        return [entry for entry in self.entries if entry.status not in ("ok", "disabled")]

    def names(self, kind: str) -> list[str]:
        """Returns the names of the usable components of a kind."""
        return [entry.name for entry in self.entries if entry.kind == kind and entry.usable]

    def about(self, name: str) -> list[Entry]:
        """Returns all entries with this component, plugin or distribution name, usable or not.

        Raises:
            UnknownNameError: There are no such entries.
        """
        found = [entry for entry in self.entries if name in (entry.name, entry.distribution)]
        if not found:
            parts = {entry.name for entry in self.entries if entry.kind != PLUGIN}
            known = parts | {entry.distribution for entry in self.entries}
            raise UnknownNameError("component or distribution", name, known, see=_SEE)
        return found

    def find(self, kind: str, name: str) -> Entry:
        """Returns the usable component of that kind and name.

        Raises:
            MissingDependencyError: Another package of fedplug provides the component, and is not installed.
            PluginError: The component cannot be used, or the plugin of that name is broken.
            UnknownNameError: No component of that name is installed.
        """
        candidates = [entry for entry in self.entries if entry.kind == kind and entry.name == name]
        for entry in candidates:
            if entry.usable:
                return entry
        troubled = [entry for entry in self.entries if entry.kind == PLUGIN]
        candidates += [entry for entry in troubled if entry.name == name]
        if candidates:
            raise candidates[0].error()
        plugin = _IN_A_PACKAGE.get((kind, name))
        if plugin is not None and all(entry.distribution != plugin for entry in troubled):
            raise MissingDependencyError(f"{kind} {name!r}", plugin.replace("-", "_"))
        # A broken plugin may be the one that provides the name, so the error mentions it.
        origins = ", ".join(sorted({entry.origin for entry in troubled}))
        note = f"these plugins have problems or are disabled, see `{_SEE}`: {origins}" if origins else ""
        raise UnknownNameError(kind, name, self.names(kind), note=note, see=_SEE)


def settle_clashes(entries: Iterable[Entry]) -> list[Entry]:
    """Marks components that share kind and name, or a wire id: the order of installation never matters.

    A built-in component keeps its name and its wire id, because installing a plugin must not change a
    program. If two plugins share a name, neither gets it. If they share a wire id, both can encode, but the
    payloads of neither are decoded, as one would be read as the other.
    """
    named = _settled(entries, "name", lambda entry: entry.kind != OBSERVER and (entry.kind, entry.name))
    return _settled(named, "wire id", lambda entry: entry.wire_id)


def _settled(entries: Iterable[Entry], what: str, claim: Callable[[Entry], object]) -> list[Entry]:
    entries = list(entries)
    claims: dict[object, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.status == "ok" and claim(entry):
            claims[claim(entry)].append(entry)
    return [
        _settle(entry, what, claims[claim(entry)]) if entry.status == "ok" and claim(entry) else entry
        for entry in entries
    ]


def _settle(entry: Entry, what: str, claimants: list[Entry]) -> Entry:
    if entry.builtin or len(claimants) == 1:
        return entry
    status: Status = "clash"
    declared = f"{entry.kind} {entry.name!r}" if what == "name" else f"the wire id {entry.wire_id!r}"
    origins = " and ".join(
        dict.fromkeys(
            claimant.origin if what == "name" else f"{claimant.name!r} of {claimant.origin}"
            for claimant in claimants
        )
    )
    builtin = next((claimant for claimant in claimants if claimant.builtin), None)
    if builtin is not None:
        fix = f"ask the authors of {entry.distribution} for another {what}; {builtin.origin} keeps this one"
    elif len({claimant.distribution for claimant in claimants}) == 1:
        origins, fix = f"{entry.origin} more than once", f"tell the authors of {entry.distribution}"
    else:
        status = "clash" if what == "name" else "wire clash"
        fix = (
            f"`pip uninstall {entry.distribution}` if you want the other one, or list in FEDPLUG_PLUGINS the "
            "distributions to load, with one of these"
        )
    return replace(entry, status=status, reason=f"{declared} is declared by {origins}", fix=fix)
