"""The backend of CUDA devices: a `fedplug.ops.device_array.Backend`."""

from fedplug_cuda.arrays import as_device_array
from fedplug_cuda.library import problem
from fedplug_cuda.memory import to_device
from fedplug_cuda.ops.arrays import (
    are_finite,
    asarray,
    astype,
    ensure_shape,
    multiply,
    no_residual,
    on_host,
    require_finite,
    widened,
)
from fedplug_cuda.ops.scatter import (
    add_selected,
    gather_finite_of_each,
    scatter_decode_add,
    take_from_sum_of_each,
)
from fedplug_cuda.ops.sums import copied, divide, largest_of_each, prepared, refusal, write, zeros
from fedplug_cuda.ops.topk import (
    chunked_topk_residual_of_each,
    grouped_topk_residual,
    topk_residual,
    topk_residual_of_each,
)
from fedplug_cuda.topk import self_check
from fedplug_cuda.values import encode_values

__all__ = [
    "add_selected",
    "are_finite",
    "as_device_array",
    "asarray",
    "astype",
    "chunked_topk_residual_of_each",
    "copied",
    "divide",
    "encode_values",
    "ensure_shape",
    "gather_finite_of_each",
    "grouped_topk_residual",
    "largest_of_each",
    "multiply",
    "no_residual",
    "on_host",
    "prepared",
    "problem",
    "refusal",
    "require_finite",
    "scatter_decode_add",
    "self_check",
    "take_from_sum_of_each",
    "to_device",
    "topk_residual",
    "topk_residual_of_each",
    "widened",
    "write",
    "zeros",
]
