"""A stateless encoder as a sum: the innermost factory inside TFF's aggregators."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow_federated as tff

from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.tff.aggregators.sum import Sum
from fedplug.tff.process import compatibility
from fedplug.tff.process.aggregation.factory import EncodedAggregationFactory
from fedplug.tff.process.arguments import as_encoder
from fedplug.tff.process.lowering import choose_lowering

__all__ = ["EncodedSumFactory", "build_sum_factory"]


class EncodedSumFactory(tff.aggregators.UnweightedAggregationFactory):
    """Encodes on the clients and adds the payloads up on the server, every client with weight 1.

    The process it creates has ``next`` of type ``(<S@SERVER,{V}@CLIENTS> ->
    <state=S@SERVER,result=V@SERVER,measurements=M@SERVER>)``, with the measurements of
    `fedplug.tff.process.aggregation.encoded_aggregation.EncodedAggregation`.
    """

    def __init__(self, encoded: EncodedAggregationFactory) -> None:
        self._encoded = encoded

    def create(self, value_type: Any) -> Any:
        """Builds the aggregation process for values of ``value_type``.

        Raises:
            ConfigError: The type holds something else than tensors of known shapes.
        """
        weighted = self._encoded.create(value_type, tff.TensorType(np.float32))

        @tff.federated_computation(
            weighted.initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state: Any, value: Any) -> Any:
            return weighted.next(state, value, tff.federated_value(np.float32(1), tff.CLIENTS))

        return tff.templates.AggregationProcess(weighted.initialize, next_fn)


def build_sum_factory(
    encoder: Encoder | str,
    *,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    private: bool = False,
    tensor_metrics: bool = False,
) -> EncodedSumFactory:
    """Makes a stateless encoder usable as ``value_sum_factory=`` of `tff.aggregators.MeanFactory`.

    It is also the innermost factory of `tff.aggregators.clipping_factory`, `zeroing_factory` and
    `DifferentiallyPrivateFactory`. A client with a NaN or an infinity in its value sends nothing.

    Args:
        encoder: An encoder without client state, or an expression.
        lowering: ``"auto"``, ``"fused"`` or ``"reference"``. See `fedplug.tff.process.lowering`.
        min_size: Tensors with fewer elements are sent uncompressed.
        private: Whether the sum is inside a `tff.aggregators.DifferentiallyPrivateFactory`, which clips
            updates first and adds noise later. The encoder must then have bounded_sensitivity.
        tensor_metrics: Whether the measurements have ``tensors``, see `build_weighted_fed_avg`.

    Raises:
        CapabilityError: The encoder needs client state, or ``private`` is true and its sensitivity is not
            bounded.
        ConfigError: The expression is not valid.
        LoweringError: The current runtime cannot run the requested ``lowering``.
    """
    chosen = as_encoder(encoder)
    configuration = compatibility.Configuration(
        encoders=((chosen, frozenset()),), aggregator=Sum(), keeps_client_state=False, private=private
    )
    compatibility.check(configuration, warn=False)
    return EncodedSumFactory(
        EncodedAggregationFactory(
            chosen,
            Sum(),
            lowering=choose_lowering(lowering),
            min_size=min_size,
            names=None,
            tensor_metrics=tensor_metrics,
            private=private,
        )
    )
