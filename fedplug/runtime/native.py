"""TFF's stock worker as a runtime: refuses what it cannot run before the worker sees it.

Must not know the in-process runtime.
"""

from __future__ import annotations

import re
from typing import Any

import tensorflow_federated as tff

from fedplug.errors import LoweringError
from fedplug.runtime.tff_internals import transform_args, transform_result

__all__ = ["create_native_execution_context", "custom_ops_of"]


def custom_ops_of(computation: tff.framework.ConcreteComputation) -> list[str]:
    """Returns the names of fedplug's custom ops that a computation's graphs hold, sorted."""
    # Graphs lie in the proto as plain bytes, however deep; an op's name is followed by a byte no name holds.
    proto = tff.framework.ConcreteComputation.get_proto(computation).SerializeToString()
    return sorted({name.decode() for name in re.findall(rb"Fedplug>\w+", proto)})


def create_native_execution_context(
    *, default_num_clients: int = 0, max_concurrent_clients: int | None = None
) -> tff.framework.SyncContext:
    """Returns TFF's stock context, which starts a worker process at the first computation.

    Args:
        default_num_clients: The number of clients of a computation whose arguments do not tell.
        max_concurrent_clients: How many calls of one computation run at a time in the worker; no limit, if
            None.
    """
    return NativeContext(
        tff.framework.local_cpp_executor_factory(
            default_num_clients=default_num_clients,
            max_concurrent_computation_calls=-1 if max_concurrent_clients is None else max_concurrent_clients,
        ),
        _compile,
        transform_args=transform_args,
        transform_result=transform_result,
    )


class NativeContext(tff.framework.SyncExecutionContext):  # type: ignore[misc]
    """TFF's context; custom ops do not run in its worker."""

    runs_custom_ops = False


def _compile(computation: Any) -> Any:
    if ops := custom_ops_of(computation):
        raise LoweringError(
            f"the computation holds {', '.join(ops)}, and TFF's stock worker cannot load custom ops; "
            'build it with lowering="reference", or run it with fedplug.use_runtime("inprocess")'
        )
    return tff.backends.native.desugar_and_transform_to_native(computation)
