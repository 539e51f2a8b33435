"""The private parts of TFF 0.87 that a runtime needs, as one list for a port to another release.

An execution context accepts only values and executors of these two base classes. The other parts keep TFF's
behaviour: how a list becomes a data set, and how tensors in arguments become arrays.
"""

from __future__ import annotations

from tensorflow_federated.proto.v0 import computation_pb2
from tensorflow_federated.python.core.environments.tensorflow_backend.tensorflow_tree_transformations import (
    replace_intrinsics_with_bodies,
)
from tensorflow_federated.python.core.environments.tensorflow_frontend.tensorflow_computation import (
    transform_args,
    transform_result,
)
from tensorflow_federated.python.core.impl.executors.executor_base import Executor
from tensorflow_federated.python.core.impl.executors.executor_value_base import ExecutorValue
from tensorflow_federated.python.core.impl.utils.tensorflow_utils import make_data_set_from_elements

__all__ = [
    "Executor",
    "ExecutorValue",
    "computation_pb2",
    "make_data_set_from_elements",
    "replace_intrinsics_with_bodies",
    "transform_args",
    "transform_result",
]
