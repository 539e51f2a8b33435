"""TensorBoard for fedplug: every round's metrics as scalars.

The package does nothing unless ``FEDPLUG_TENSORBOARD=logs``, or `log_to`, names a folder. `Writer` writes
numbers from elsewhere, such as a codec's.
"""

from __future__ import annotations

from fedplug_tensorboard.plugin import log_to
from fedplug_tensorboard.writer import Writer

__all__ = ["Writer", "log_to"]
