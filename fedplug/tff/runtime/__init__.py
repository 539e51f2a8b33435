"""Where TFF computations run: in this process, in the stock worker, or on the workers of a Ray cluster.

`use_runtime("inprocess")` lets every TFF computation of this thread run with the TensorFlow of this process,
so that custom ops work and values are passed by reference; `use_runtime("native")` is TFF's own worker;
`use_runtime("ray")` spreads the clients of a round over many machines.

What is here is imported on first use: a coordinator of a Ray cluster is below this package and starts without
TensorFlow.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from fedplug.errors import MissingDependencyError
from fedplug.registry.first_use import imported_on_first_use

if importlib.util.find_spec("tensorflow_federated") is None:
    raise MissingDependencyError("fedplug.tff.runtime", "tensorflow_federated")

from fedplug.tff.runtime.message_depth import allow_deep_messages

if TYPE_CHECKING:
    from fedplug.tff.runtime.candidates import Candidates
    from fedplug.tff.runtime.inprocess.context import (
        create_async_execution_context,
        create_sync_execution_context,
    )
    from fedplug.tff.runtime.switch import RuntimeHandle, use_runtime

__all__ = [
    "Candidates",
    "RuntimeHandle",
    "create_async_execution_context",
    "create_sync_execution_context",
    "use_runtime",
]

_HOMES = {
    "Candidates": "fedplug.tff.runtime.candidates",
    "RuntimeHandle": "fedplug.tff.runtime.switch",
    "create_async_execution_context": "fedplug.tff.runtime.inprocess.context",
    "create_sync_execution_context": "fedplug.tff.runtime.inprocess.context",
    "use_runtime": "fedplug.tff.runtime.switch",
}

# Here and not where a context is made: processes are often built before.
allow_deep_messages()


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
