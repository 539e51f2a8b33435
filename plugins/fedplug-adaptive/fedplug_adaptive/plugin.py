"""What this distribution brings; named by its entry point in the group ``fedplug.v1``.

Imports nothing but fedplug's hooks and specs, as fedplug imports it whenever it lists its plugins.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import AggregatorSpec


@hookimpl
def fedplug_aggregators() -> list[AggregatorSpec]:
    """What `fedplug_adaptive.process.build_adaptive_fed_avg` aggregates with, in its two forms."""
    return [
        AggregatorSpec(
            name="reported_weights",
            target="fedplug_adaptive.layer_weights:ReportedWeights",
            summary="a mean by layer, with weights the clients report",
            examples=("reported_weights([0, 0])",),
        ),
        AggregatorSpec(
            name="divergence_softmax",
            target="fedplug_adaptive.layer_weights:DivergenceSoftmax",
            summary="a mean by layer, with the softmax of divergences the clients report",
            examples=("divergence_softmax([0, 0])", "divergence_softmax([0, 0], temperature=0.5)"),
        ),
    ]
