"""Compressed updates inside Flower's SecAgg+, which is part of its legacy API only.

`CompressedSecAggMod` is a mod for a ClientApp, and `CompressedSecAggWorkflow` is the ``fit_workflow`` of a
`DefaultWorkflow`. docs/flower.md explains their promises.
"""

from fedplug_flower.secagg.mod import CompressedSecAggMod
from fedplug_flower.secagg.workflow import CompressedSecAggWorkflow

__all__ = ["CompressedSecAggMod", "CompressedSecAggWorkflow"]
