"""Builds TFF processes from components: encoder, aggregator, model, optimizers.

Types are written as in TFF.
"""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import tensorflow_federated  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError("fedplug.tff.process", error.name or "") from error

from fedplug.tff.process.aggregation.compressed_sum import build_compressed_sum_factory
from fedplug.tff.process.aggregation.factory import (
    EncodedAggregationFactory,
    EncodedSumFactory,
    build_aggregation_factory,
    build_sum_factory,
)
from fedplug.tff.process.aggregation.transform import Transform, TransformFactory
from fedplug.tff.process.broadcaster import build_distributor, build_encoded_distributor
from fedplug.tff.process.learning.components import ProximalOptimizer, variable_names
from fedplug.tff.process.learning.fed_avg import build_weighted_fed_avg
from fedplug.tff.process.learning.keras_models import from_keras, to_keras
from fedplug.tff.process.learning.local_variables import build_local_variables_fed_avg
from fedplug.tff.process.learning.stateful_clients import (
    StatefulClientsProcess,
    assemble_process,
    constrain_weights,
)
from fedplug.tff.process.tracing import choose_lowering

__all__ = [
    "EncodedAggregationFactory",
    "EncodedSumFactory",
    "ProximalOptimizer",
    "StatefulClientsProcess",
    "Transform",
    "TransformFactory",
    "assemble_process",
    "build_aggregation_factory",
    "build_compressed_sum_factory",
    "build_distributor",
    "build_encoded_distributor",
    "build_local_variables_fed_avg",
    "build_sum_factory",
    "build_weighted_fed_avg",
    "choose_lowering",
    "constrain_weights",
    "from_keras",
    "to_keras",
    "variable_names",
]
