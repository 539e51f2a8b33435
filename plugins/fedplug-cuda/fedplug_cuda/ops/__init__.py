"""The backend of CUDA devices: a `fedplug.ops.device_array.Backend`."""

from fedplug_cuda.arrays import as_device_array as as_device_array
from fedplug_cuda.library import problem as problem
from fedplug_cuda.memory import to_device as to_device
from fedplug_cuda.ops.arrays import *  # noqa: F403
from fedplug_cuda.ops.scatter import *  # noqa: F403
from fedplug_cuda.ops.sums import *  # noqa: F403
from fedplug_cuda.ops.topk import *  # noqa: F403
from fedplug_cuda.topk import self_check as self_check
from fedplug_cuda.values import encode_values as encode_values
