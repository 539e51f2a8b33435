"""The declarations of this distribution, found through its entry point in the group ``fedplug.v1``.

fedplug imports this module whenever it lists plugins, so it imports only fedplug's hooks and specs.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import AggregatorSpec


@hookimpl
def fedplug_aggregators() -> list[AggregatorSpec]:
    """Declares three aggregators that tolerate some hostile clients."""
    return [
        AggregatorSpec(
            name="median",
            target="fedplug_robust.order_statistics:Median",
            summary="the median of the clients' updates, coordinate by coordinate",
        ),
        AggregatorSpec(
            name="trimmed_mean",
            target="fedplug_robust.order_statistics:TrimmedMean",
            summary="the mean without the largest and smallest values of each coordinate",
            examples=("trimmed_mean(0.2)",),
        ),
        AggregatorSpec(
            name="krum",
            target="fedplug_robust.krum:Krum",
            summary="the update, or the mean of some, nearest to most of the others",
            examples=("krum(1)", "krum(1, selected=3)"),
        ),
    ]
