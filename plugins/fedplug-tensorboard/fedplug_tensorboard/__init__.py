"""TensorBoard for fedplug: every round's metrics as scalars.

Installed it does nothing. ``FEDPLUG_TENSORBOARD=logs``, or `log_to`, says where to write; `Writer` writes
numbers that no `fedplug.Trainer` measured, such as a codec's.
"""

from __future__ import annotations

from fedplug_tensorboard.plugin import log_to
from fedplug_tensorboard.writer import Writer

__all__ = ["Writer", "log_to"]
