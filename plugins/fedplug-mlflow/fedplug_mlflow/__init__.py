"""MLflow for fedplug: a run per training, with what it was built of and every round's metrics.

Installed it does nothing. ``FEDPLUG_MLFLOW=file:mlruns``, or `log_to`, says where to.
"""

from __future__ import annotations

from fedplug_mlflow.plugin import log_to

__all__ = ["log_to"]
