"""The compiled kernels on NumPy arrays: the code that the TensorFlow ops run, without TensorFlow.

Conventions of all functions:

- Arrays may have any shape and are used as flat arrays, unless a function gives a shape. They are never
  copied or converted. An array that is not C-contiguous, has another dtype, or is read-only but updated in
  place is refused with an :class:`~fedplug.errors.ArgumentError` that names the value to pass instead.
- A floating dtype is float32, float64, float16 or bfloat16 (``ml_dtypes.bfloat16``). All floating arrays of a
  call have the same dtype unless a function says otherwise.
- Arguments named ``out`` or ``..._out`` are arrays to write to. Their contents are undefined after an error.
- Decoders accept untrusted bytes, and refuse invalid ones with a :class:`~fedplug.errors.PayloadError`.

Kernels release the GIL. Large inputs use several threads: ``FEDPLUG_NUM_THREADS`` of the environment, or the
number of cores that CPU affinity and the container's quota allow. No result depends on their number. Other
threads must not change the arrays during a call.

Their stub, ``fedplug/_kernels.pyi``, documents the functions.
``csrc/README.md`` and the headers in ``csrc/core`` describe the contract of the kernels.
"""

from __future__ import annotations

from fedplug.registry.build_info import not_loaded, require_current

try:
    # Imported first, because all modules below need it.
    import fedplug._kernels as _kernels
except ImportError as error:
    raise not_loaded(error) from None
else:
    require_current("fedplug._kernels", "csrc/python/register_*.cc", getattr(_kernels, "built_from", None))

from fedplug._kernels import *  # noqa: F403

__all__ = [name for name in vars(_kernels) if not name.startswith("_") and name != "built_from"]
