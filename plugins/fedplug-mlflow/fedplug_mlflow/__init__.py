"""MLflow for fedplug: one run per training, with its components and every round's metrics.

The package does nothing unless ``FEDPLUG_MLFLOW=file:mlruns``, or `log_to`, names a destination.
"""

from __future__ import annotations

from fedplug_mlflow.plugin import log_to

__all__ = ["log_to"]
