"""Every error fedplug raises on purpose: callers catch one family, the command line prints one line.

Each message says what is wrong, where, and what to do about it. Must import only the standard library.
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
    "NonFiniteError",
    "OpLibraryError",
    "PayloadError",
    "PluginError",
    "StoreError",
    "StoreMismatchError",
    "UnknownNameError",
    "WorkerError",
    "nearest",
]


class FedplugError(Exception):
    """Base of all errors a caller or a user of the command line can act upon."""


class ArgumentError(FedplugError, ValueError):
    """An array or a number handed to a function has the wrong dtype, layout, shape or range."""


class ConfigError(FedplugError, ValueError):
    """A configuration value is missing, of the wrong type or out of range."""


class UnknownNameError(ConfigError):
    """A name (encoder, store, configuration key ...) is not known; the message lists the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "", note: str = "") -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        place = f" in {where}" if where else ""
        end = f" ({note})" if note else ""
        super().__init__(f"unknown {kind} {name!r}{place}; {nearest(name, self.known)}{end}")


class CapabilityError(FedplugError):
    """Parts were stacked in a way their declared capabilities forbid."""


class CapabilityWarning(UserWarning):
    """Parts were stacked in a way that works, but rarely well."""


class PluginError(FedplugError):
    """A plugin could not be imported, or what it declares is not valid."""


class PayloadError(FedplugError, ValueError):
    """A payload is truncated, corrupt, or not what its header claims."""


class NonFiniteError(FedplugError, ValueError):
    """A NaN or an infinity where only finite numbers make sense; ``count`` says how many, if known."""

    def __init__(self, message: str, count: int | None = None) -> None:
        self.count = count
        super().__init__(message)


class OpLibraryError(FedplugError):
    """The compiled op library is missing or was built for another TensorFlow."""


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


class CorruptStoreError(StoreError):
    """A blob of a store fails its checksum; the message names it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean 'x'?`` or the list of known names, for the end of an error message."""
    choices = sorted(known)
    close = _closest(name, choices)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    if choices:
        return "known: " + ", ".join(choices)
    return "none is available"


def _closest(name: str, choices: list[str]) -> list[str]:
    """Up to three that are alike, the best first; one that is clearly less so than the best is no help."""
    matcher = difflib.SequenceMatcher(None, b=name)
    likeness = {}
    for choice in difflib.get_close_matches(name, choices, n=3, cutoff=0.6):
        matcher.set_seq1(choice)
        likeness[choice] = matcher.ratio()
    return [choice for choice, ratio in likeness.items() if ratio > max(likeness.values()) - 0.1]
