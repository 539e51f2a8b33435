"""All errors that fedplug raises on purpose. Each message says what is wrong, where, and how to fix it."""

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
    "DTypeError",
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
"""The maximum number of names in a message of one line."""

_ALIKE = 0.6
"""The minimum `difflib` ratio of a suggested name, from 0 to 1."""

_LESS_ALIKE = 0.1
"""The maximum difference between the ratios of the best and of another suggested name."""

_TFF_EXTRA = "`pip install 'fedplug[tff]'` on Python 3.11 (for its jaxlib see docs/tff.md#versions)"

_OPTIONAL = {
    "tensorflow": ("TensorFlow", f"{_TFF_EXTRA}, or `pip install tensorflow` on a newer Python"),
    "tensorflow_federated": ("TensorFlow Federated", _TFF_EXTRA),
    "matplotlib": ("Matplotlib", "`pip install matplotlib`, which fedplug[experiments] also installs"),
    "sklearn": ("scikit-learn", "`pip install scikit-learn`, which fedplug[experiments] also installs"),
    "fedplug_baselines": ("fedplug-baselines", "`pip install fedplug-baselines`"),
    "fedplug_postgres": ("fedplug-postgres", "`pip install fedplug-postgres`"),
    "fedplug_ray": ("fedplug-ray", "`pip install 'fedplug[ray]'` on Python 3.11"),
    "fedplug_cuda": ("fedplug-cuda", "`pip install fedplug-cuda`"),
    "fedplug_robust": ("fedplug-robust", "`pip install fedplug-robust` on Python 3.11"),
    "fedplug_sketch": ("fedplug-sketch", "`pip install fedplug-sketch`"),
}
"""Optional dependencies by module: the name, and how to install it."""


class FedplugError(Exception):
    """The base of all errors that a caller or a user of the command line can act upon.

    All of them can be pickled and copied, whatever arguments a subclass takes, so that a worker process can
    forward them.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[FedplugError], args: tuple[object, ...], attributes: dict[str, object]
) -> FedplugError:
    error = kind.__new__(kind, *args)  # without `__init__`, which may take other arguments
    error.__dict__.update(attributes)
    return error


class ArgumentError(FedplugError, ValueError):
    """An array or a number passed to a function has the wrong dtype, layout, shape or range."""


class DTypeError(ArgumentError, TypeError):
    """An argument has the wrong dtype or type, such as 0.01 where a whole number is required."""


class ConfigError(FedplugError, ValueError):
    """A configuration value is missing, of the wrong type or out of range."""


class UnknownNameError(ConfigError):
    """A name (encoder, store, configuration key ...) is unknown. The message lists the nearest names.

    Args:
        kind: The kind of thing that is named.
        name: The unknown name.
        known: All known names.
        where: The place that was searched.
        note: Additional advice for the reader.
        see: A command that lists the names, if there is one.
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
    """Components were combined in a way that works but rarely works well."""


class PluginError(FedplugError):
    """A plugin could not be imported, or its declarations are invalid."""


class PayloadError(FedplugError, ValueError):
    """A payload is truncated or corrupt, or contradicts its header."""


class StateError(FedplugError, ValueError):
    """A client's state has another codec, version, shape or dtype than expected."""


class BaseVersionError(FedplugError, ValueError):
    """A message brings another version of a model up to date than the one the receiver has."""


class MissingDependencyError(FedplugError, ModuleNotFoundError):
    """An optional package is needed but not installed.

    Args:
        needed_by: The feature that needs it, for example "fedplug.tff.process".
        module: The missing module, which `ImportError` calls ``name``.
    """

    def __init__(self, needed_by: str, module: str) -> None:
        self.needed_by = needed_by
        title, remedy = _OPTIONAL.get(module, (module, f"`pip install {module}`"))
        super().__init__(f"{needed_by} needs {title}, which is not installed: {remedy}", name=module)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.needed_by, self.name), self.__dict__  # which lacks ImportError's `name`


class NonFiniteError(FedplugError, ValueError):
    """A number is NaN or infinite where it must be finite. ``count`` is the number of them, if known."""

    def __init__(self, message: str, count: int | None = None) -> None:
        self.count = count
        super().__init__(message)


class OpLibraryError(FedplugError):
    """The compiled op library is missing or was built for another TensorFlow."""


class StaleBuildError(OpLibraryError):
    """The compiled parts of a checkout were built from other sources than the current ones."""


class LoweringError(FedplugError):
    """The requested lowering cannot run on the runtime in use."""


class ComputationError(FedplugError, RuntimeError):
    """A TFF computation failed while it ran. The message names it and the failed step. The cause is chained.

    Attributes:
        client: The position of the client whose work failed, counted from 0. None for the server.
    """

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


class WorkerError(FedplugError, RuntimeError):
    """A worker process did not start or died. The message contains its last output."""


class StoreError(FedplugError):
    """A client-state store cannot be opened, read or committed to."""


class StoreMismatchError(StoreError):
    """A store holds the state of another model or process."""


class StoreInUseError(StoreError):
    """A store is open elsewhere; a store has one user at a time."""


class CorruptStoreError(StoreError):
    """Data of a store fails its checksum. The message names it."""


def missing_dependency(error: BaseException | None) -> str | None:
    """Returns the name of the optional module that was not found. None for any other error."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    return module if module in _OPTIONAL else None


def text_of(error: BaseException) -> str:
    """Returns the text of a plugin's error in one line, even if the error cannot be turned into text."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return "(its text cannot be read)"


def nearest(name: str, known: Iterable[str], see: str = "") -> str:
    """Returns the end of an error message: ``did you mean 'x'?``, or how to find the right name.

    Args:
        name: The unknown name.
        known: All known names.
        see: A command that lists the names. Without one, the message lists some of them.
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
        return f"none of the {len(choices)} known names is similar; `{see}` lists them"
    return "known: " + ", ".join(choices[:_FEW]) + f" and {len(choices) - _FEW} more"


def _closest(name: str, choices: list[str]) -> list[str]:
    """Returns up to three similar names, best first. Clearly worse ones than the best are left out."""
    matcher = difflib.SequenceMatcher(None, b=name.lower())
    likeness = {}
    for choice in choices:
        matcher.set_seq1(choice.lower())
        likeness[choice] = matcher.ratio()
    least = max(_ALIKE, max(likeness.values(), default=0) - _LESS_ALIKE)
    alike = [choice for choice in choices if likeness[choice] >= least]
    return sorted(alike, key=lambda choice: -likeness[choice])[:3]
