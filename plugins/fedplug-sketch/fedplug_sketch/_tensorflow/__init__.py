"""The functions of this package on TensorFlow's tensors. Each module is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.ops.lazy import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_sketch._tensorflow import ops as ops

__getattr__ = imported_on_first_use(__name__)
