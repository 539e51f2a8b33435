"""The declarations of this distribution, found through its entry point in the group ``fedplug.v1``.

fedplug imports this module whenever it lists plugins, so it imports only fedplug's hooks and specs.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import AggregatorSpec


@hookimpl
def fedplug_aggregators() -> list[AggregatorSpec]:
    """Declares the aggregator of `fedplug_adaptive.process.build_adaptive_fed_avg`."""
    return [
        AggregatorSpec(
            name="divergence_softmax",
            target="fedplug_adaptive.layer_weights:DivergenceSoftmax",
            summary="a mean by layer, with the softmax of divergences the clients report",
            examples=("divergence_softmax([0, 0])", "divergence_softmax([0, 0], temperature=0.5)"),
        ),
    ]
