"""Where TFF computations run: in this process, in the stock worker, or on the workers of a Ray cluster.

`use_runtime("inprocess")` lets every TFF computation of this thread run with the TensorFlow of this process,
so that custom ops work and values are passed by reference; `use_runtime("native")` is TFF's own worker;
`use_runtime("ray")` spreads the clients of a round over many machines.
"""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import tensorflow_federated  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError("fedplug.runtime", error.name or "") from error

from fedplug.runtime.candidates import Candidates
from fedplug.runtime.inprocess.context import create_async_execution_context, create_sync_execution_context
from fedplug.runtime.message_depth import allow_deep_messages
from fedplug.runtime.switch import RuntimeHandle, use_runtime

__all__ = [
    "Candidates",
    "RuntimeHandle",
    "create_async_execution_context",
    "create_sync_execution_context",
    "use_runtime",
]

# Here and not where a context is made: processes are often built before.
allow_deep_messages()
