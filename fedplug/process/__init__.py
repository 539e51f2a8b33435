"""Builds TFF processes from parts: encoder, aggregator, model, optimizers.

Types are written as in TFF. Must not import `fedplug.runtime` or `fedplug.stores`.
"""

from __future__ import annotations

from fedplug.process.factory import EncodedAggregationFactory, build_aggregation_factory
from fedplug.process.fed_avg import StatefulClientsProcess, build_weighted_fed_avg
from fedplug.process.lowering import choose_lowering

__all__ = [
    "EncodedAggregationFactory",
    "StatefulClientsProcess",
    "build_aggregation_factory",
    "build_weighted_fed_avg",
    "choose_lowering",
]
