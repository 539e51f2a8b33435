"""Every error fedplug raises on purpose: callers catch one family, the command line prints one line.

Each message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "CapabilityError",
    "CapabilityWarning",
    "ComputationError",
    "ConfigError",
    "CorruptStoreError",
    "FedplugError",
    "LoweringError",
    "MissingDependencyError",
    "NonFiniteError",
    "OpLibraryError",
    "PayloadError",
    "PluginError",
    "StaleBuildError",
    "StateError",
    "StoreError",
    "StoreInUseError",
    "StoreMismatchError",
    "UnknownNameError",
    "WorkerError",
    "missing_dependency",
    "nearest",
    "text_of",
]

_FEW = 12
"""So many names may be listed in a message of one line."""

_ALIKE = 0.6
"""The least `difflib` ratio of a name that may have been meant, from 0 to 1."""

_LESS_ALIKE = 0.1
"""How much less than the best."""

_TFF_EXTRA = "`pip install 'fedplug[tff]'` on Python 3.11 (for its jaxlib see docs/tff.md#versions)"

_OPTIONAL = {
    "tensorflow": ("TensorFlow", f"{_TFF_EXTRA}, or `pip install tensorflow` on a newer Python"),
    "tensorflow_federated": ("TensorFlow Federated", _TFF_EXTRA),
    "matplotlib": ("Matplotlib", "`pip install matplotlib`, which fedplug[experiments] brings, too"),
    "sklearn": ("scikit-learn", "`pip install scikit-learn`, which fedplug[experiments] brings, too"),
    "ray": ("Ray", "`pip install 'fedplug[ray]'` on Python 3.11"),
}
"""What fedplug can do without, by module: its name, and what installs it."""


class FedplugError(Exception):
    """Base of all errors a caller or a user of the command line can act upon."""


class ArgumentError(FedplugError, ValueError):
    """An array or a number handed to a function has the wrong dtype, layout, shape or range."""


class ConfigError(FedplugError, ValueError):
    """A configuration value is missing, of the wrong type or out of range."""


class UnknownNameError(ConfigError):
    """A name (encoder, store, configuration key ...) is not known; the message lists the nearest ones.

    Args:
        kind: Of what it should be the name.
        name: As it was given.
        known: The names there are.
        where: In what it was looked for.
        note: What else the reader should know.
        see: The command that lists the names, where there is one.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], where: str = "", note: str = "", see: str = ""
    ) -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        place = f" in {where}" if where else ""
        end = f" ({note})" if note else ""
        super().__init__(f"unknown {kind} {name!r}{place}; {nearest(name, self.known, see)}{end}")


class CapabilityError(FedplugError):
    """Components were combined in a way that their declared capabilities forbid."""


class CapabilityWarning(UserWarning):
    """Components were combined in a way that works, but rarely well."""


class PluginError(FedplugError):
    """A plugin could not be imported, or what it declares is not valid."""


class PayloadError(FedplugError, ValueError):
    """A payload is truncated, corrupt, or not what its header claims."""


class StateError(FedplugError, ValueError):
    """A client's state is of another codec, version, shape or dtype than what it was given to."""


class MissingDependencyError(FedplugError, ModuleNotFoundError):
    """A package that fedplug can do without is needed here, and is not installed.

    Args:
        needed_by: What needs it, for instance "fedplug.tff.process".
        module: Its module, which `ImportError` calls ``name``.
    """

    def __init__(self, needed_by: str, module: str) -> None:
        self.needed_by = needed_by
        title, remedy = _OPTIONAL.get(module, (module, f"`pip install {module}`"))
        super().__init__(f"{needed_by} needs {title}, which is not installed: {remedy}", name=module)

    def __reduce__(self) -> tuple[type[MissingDependencyError], tuple[str, str | None]]:
        """So that a worker process can hand it on."""
        return type(self), (self.needed_by, self.name)


class NonFiniteError(FedplugError, ValueError):
    """A NaN or an infinity where only finite numbers make sense; ``count`` says how many, if known."""

    def __init__(self, message: str, count: int | None = None) -> None:
        self.count = count
        super().__init__(message)


class OpLibraryError(FedplugError):
    """The compiled op library is missing or was built for another TensorFlow."""


class StaleBuildError(OpLibraryError):
    """What is compiled in a checkout was built from other sources than lie there now."""


class LoweringError(FedplugError):
    """The requested lowering cannot run on the runtime in use."""


class ComputationError(FedplugError, RuntimeError):
    """A TFF computation failed while it ran; the message names it and what failed, the cause is chained.

    Attributes:
        client: The position of the client whose work failed, counted from 0; None at the server.
    """

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


class WorkerError(FedplugError, RuntimeError):
    """A worker process did not start, or died; the message holds what it wrote last."""


class StoreError(FedplugError):
    """A client-state store cannot be opened, read or committed to."""


class StoreMismatchError(StoreError):
    """A store holds the state of another model or process."""


class StoreInUseError(StoreError):
    """A store is open elsewhere, and has one user at a time."""


class CorruptStoreError(StoreError):
    """A blob of a store fails its checksum; the message names it."""


def missing_dependency(error: BaseException | None) -> str | None:
    """The module that was not found, if fedplug can do without it; None: something else failed."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    return module if module in _OPTIONAL else None


def text_of(error: BaseException) -> str:
    """Returns the text of a plugin's error in one line, even if the error cannot be turned into text."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return "(its text cannot be read)"


def nearest(name: str, known: Iterable[str], see: str = "") -> str:
    """Returns ``did you mean 'x'?`` or how to find the right name, for the end of an error message.

    Args:
        name: The one that is not known.
        known: Those that are.
        see: The command that lists them; without one, some are listed however many there are.
    """
    choices = sorted(known)
    close = _closest(name, choices)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    if not choices:
        return "none is available"
    if len(choices) <= _FEW:
        return "known: " + ", ".join(choices)
    if see:
        return f"none of the {len(choices)} known is like it, `{see}` shows them"
    return "known: " + ", ".join(choices[:_FEW]) + f" and {len(choices) - _FEW} more"


def _closest(name: str, choices: list[str]) -> list[str]:
    """Up to three that are alike, the best first; one that is clearly less so than the best is no help."""
    matcher = difflib.SequenceMatcher(None, b=name.lower())
    likeness = {}
    for choice in choices:
        matcher.set_seq1(choice.lower())
        likeness[choice] = matcher.ratio()
    least = max(_ALIKE, max(likeness.values(), default=0) - _LESS_ALIKE)
    alike = [choice for choice in choices if likeness[choice] >= least]
    return sorted(alike, key=lambda choice: -likeness[choice])[:3]
