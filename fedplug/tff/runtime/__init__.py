"""Where TFF computations run: in this process, in TFF's stock worker, or where a plugin runs them.

`use_runtime("inprocess")` runs the TFF computations of this thread with the TensorFlow of this process:
custom ops work, and values are passed by reference. `use_runtime("native")` uses TFF's worker process. The
plugin fedplug-ray adds `use_runtime("ray")`, which spreads the clients of a round over many machines.

The public names are imported on first use.
"""

from __future__ import annotations

import atexit
import importlib.util
from typing import TYPE_CHECKING

from fedplug.errors import MissingDependencyError
from fedplug.registry.first_use import imported_on_first_use

if importlib.util.find_spec("tensorflow_federated") is None:
    raise MissingDependencyError("fedplug.tff.runtime", "tensorflow_federated")

from fedplug.tff.runtime.tff_repairs import allow_deep_messages, end_workers_of_this_process

if TYPE_CHECKING:
    from fedplug.tff.runtime.base import Runtime, RuntimeHandle, use_runtime
    from fedplug.tff.runtime.inprocess.context import (
        create_async_execution_context,
        create_sync_execution_context,
    )

__all__ = [
    "Runtime",
    "RuntimeHandle",
    "create_async_execution_context",
    "create_sync_execution_context",
    "use_runtime",
]

_HOMES = {
    "Runtime": "fedplug.tff.runtime.base",
    "RuntimeHandle": "fedplug.tff.runtime.base",
    "create_async_execution_context": "fedplug.tff.runtime.inprocess.context",
    "create_sync_execution_context": "fedplug.tff.runtime.inprocess.context",
    "use_runtime": "fedplug.tff.runtime.base",
}

# Not where a context is made: processes are often built before that.
allow_deep_messages()
atexit.register(end_workers_of_this_process)


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
