"""The ops on device arrays. They are in the package fedplug-cuda, which need not be installed.

Each module is imported on first use. No other file of fedplug imports fedplug-cuda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.ops.lazy import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_cuda.ops import arrays as arrays
    from fedplug_cuda.ops import floats as floats
    from fedplug_cuda.ops import scatter as scatter
    from fedplug_cuda.ops import topk as topk

__getattr__ = imported_on_first_use("fedplug_cuda.ops")
