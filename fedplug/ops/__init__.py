"""Operations on arrays, for writing encoders.

An op gives the same bits on NumPy arrays and on TensorFlow tensors. On NumPy arrays it runs at once, through
`fedplug.kernels`. On TensorFlow tensors it builds the compiled op if the op library can be loaded, and else
its reference of stock TensorFlow ops. A few ops also run on a `fedplug.ops.device_array.DeviceArray`.
`fedplug.ops.dispatch` chooses between these.

Ops do not change their arguments, except residuals that the caller donated (`fedplug.ops.donation`). A
gradient through a kernel is refused with a LookupError. Array functions have the gradients of TensorFlow.
Importing this package loads neither TensorFlow nor the op library (`load_library`).

Many ops have an argument ``lowering``: "fused" for the compiled TensorFlow op, "reference" for its reference,
"auto" for either. None takes the value of `fedplug.ops.lowering.use_lowering`. A call that names a lowering
runs on TensorFlow, whatever its arguments are. It raises an `UnknownNameError` for another word, and an
`OpLibraryError` for "fused" if the op library cannot be loaded.

On NumPy arrays, invalid untrusted bytes raise a `fedplug.errors.PayloadError`, and other invalid arguments an
`ArgumentError` or a `NonFiniteError`. In TensorFlow, all of these are a `tf.errors.InvalidArgumentError` when
the graph runs. While the graph is built, a wrong static shape raises a ValueError.

A wrong dtype raises a `fedplug.errors.DTypeError`, which is an ArgumentError and a TypeError. Counts,
indices, bits, sizes, seeds and rounds must be of an integer type: 2.0, True and "2" are refused, and a number
is never cut or wrapped to fit.
"""

from __future__ import annotations

from fedplug.ops import (
    arrays,
    checks,
    container,
    index_code,
    low_rank,
    packing,
    prng,
    scales,
    scatter,
    serialization,
    spec,
    statistics,
    symbol_code,
    topk,
    value_code,
)
from fedplug.ops.arrays import *  # noqa: F403
from fedplug.ops.checks import *  # noqa: F403
from fedplug.ops.container import *  # noqa: F403
from fedplug.ops.index_code import *  # noqa: F403
from fedplug.ops.low_rank import *  # noqa: F403
from fedplug.ops.lowering import load_library
from fedplug.ops.packing import *  # noqa: F403
from fedplug.ops.prng import *  # noqa: F403
from fedplug.ops.scales import *  # noqa: F403
from fedplug.ops.scatter import *  # noqa: F403
from fedplug.ops.serialization import *  # noqa: F403
from fedplug.ops.spec import *  # noqa: F403
from fedplug.ops.statistics import *  # noqa: F403
from fedplug.ops.symbol_code import *  # noqa: F403
from fedplug.ops.topk import *  # noqa: F403
from fedplug.ops.value_code import *  # noqa: F403

__all__ = ["load_library"]
__all__ += arrays.__all__
__all__ += checks.__all__
__all__ += container.__all__
__all__ += index_code.__all__
__all__ += low_rank.__all__
__all__ += packing.__all__
__all__ += prng.__all__
__all__ += scales.__all__
__all__ += scatter.__all__
__all__ += serialization.__all__
__all__ += spec.__all__
__all__ += statistics.__all__
__all__ += symbol_code.__all__
__all__ += topk.__all__
__all__ += value_code.__all__
