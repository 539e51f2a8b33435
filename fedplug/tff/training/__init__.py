"""Training loops over TFF processes whose clients have states: `fedplug.Trainer` and its parts."""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import tensorflow_federated  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError("fedplug.tff.training", error.name or "") from error
