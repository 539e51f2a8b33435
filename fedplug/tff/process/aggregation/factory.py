"""A stateless encoder as a TFF aggregation factory, for processes that fedplug did not build.

As a weighted mean it is a process's aggregator, as a sum the innermost factory inside TFF's aggregators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow_federated as tff

from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.aggregators.sums import Sum
from fedplug.tff.process import compatibility
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder
from fedplug.tff.process.arguments import AnyEncoder, as_aggregator, as_encoder
from fedplug.tff.process.tracing import choose_lowering
from fedplug.tff.structures import Structure

__all__ = ["EncodedAggregationFactory", "EncodedSumFactory", "build_aggregation_factory", "build_sum_factory"]


class EncodedAggregationFactory(tff.aggregators.WeightedAggregationFactory):
    """Encodes on the clients, sums the payloads on the server.

    The process it creates has ``next`` of type
    ``(<S@SERVER, {V}@CLIENTS, {float32}@CLIENTS> -> <state=S@SERVER, result=V@SERVER,
    measurements=M@SERVER>)``.
    """

    def __init__(
        self,
        encoder: AnyEncoder,
        aggregator: Aggregator | str | None,
        *,
        lowering: str,
        min_size: int,
        names: Sequence[str] | None = None,
        tensor_metrics: bool,
        private: bool = False,
    ) -> None:
        self._encoder = as_encoder(encoder)
        self._aggregator = as_aggregator(aggregator)
        self._lowering = choose_lowering(lowering)
        self._min_size = min_size
        self._names = names
        self._tensor_metrics = tensor_metrics
        self._private = private
        configuration = compatibility.Configuration(
            encoders=((self._encoder, frozenset()),),
            aggregator=self._aggregator,
            keeps_client_state=False,
            private=private,
        )
        compatibility.check(configuration, warn=False)  # `create` warns, when it knows the tensors

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the aggregation process for values of ``value_type``.

        Raises:
            ConfigError: The type has something else than tensors of known shapes, or tensors whose dtype the
                aggregator cannot keep: the mean of integers is not an integer.
            CapabilityError: The components are not compatible with each other or with this type.
            TypeError: The weight is not a float32 scalar.
        """
        if weight_type != tff.TensorType(np.float32):
            raise TypeError(
                f"the weight must be a float32 scalar, as TFF's client weights are; got {weight_type}"
            )
        encoder = model_encoder(self._encoder, value_type, self._min_size, self._names)
        compatibility.check(
            compatibility.Configuration.of(
                encoder, self._aggregator, keeps_client_state=False, private=self._private
            )
        )
        aggregation = EncodedAggregation(
            value_type, encoder, self._aggregator, self._lowering, tensor_metrics=self._tensor_metrics
        )

        @tff.tensorflow.computation(value_type, np.float32, aggregation.server_message.type_signature.result)
        def encode(value: Structure, weight: Structure, server_message: Structure) -> Structure:
            return aggregation.encode(value, weight, aggregation.init_client(), server_message)["message"]

        @tff.federated_computation
        def init() -> Structure:
            return tff.federated_eval(aggregation.init_server, tff.SERVER)

        @tff.federated_computation(
            init.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state: Structure, value: Structure, weight: Structure) -> Structure:
            server_message = tff.federated_broadcast(tff.federated_map(aggregation.server_message, state))
            messages = tff.federated_map(encode, (value, weight, server_message))
            total = aggregation.aggregate(messages)
            output = tff.federated_map(aggregation.finish, (total, state))
            return tff.templates.MeasuredProcessOutput(output.state, output.value, output.measurements)

        return tff.templates.AggregationProcess(init, next_fn)


def build_aggregation_factory(
    encoder: AnyEncoder,
    aggregator: Aggregator | str | None = None,
    *,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    names: Sequence[str] | None = None,
    tensor_metrics: bool = False,
) -> EncodedAggregationFactory:
    """Makes a stateless encoder usable as ``model_aggregator=`` of TFF's own weighted federated averaging.

    In other places use `build_sum_factory`. As ``model_aggregator=`` of TFF's unweighted averaging the sum
    needs a mean around it: ``tff.aggregators.UnweightedMeanFactory(build_sum_factory(...))``.

    Args:
        encoder: An encoder without client state, for instance ``fedplug.encoder("topk", fraction=0.01,
            error_feedback=False)``. An expression, or rules.
        aggregator: An aggregator, an expression such as ``"mean"``, or None for the weighted mean.
        lowering: ``"auto"``, ``"fused"`` or ``"reference"``. See `fedplug.tff.process.tracing`.
        min_size: Tensors with fewer elements are sent uncompressed.
        names: The tensor names that rules match, such as ``variable_names(model_fn).trainable``. Default: the
            paths in the type of the values, which are positions for a model.
        tensor_metrics: Whether the aggregator's measurements have ``tensors``, see
            `fedplug.tff.process.build_weighted_fed_avg`.

    Raises:
        CapabilityError: The encoder needs client state, which a TFF aggregation process cannot hold.
        ConfigError: An expression is not valid.
        LoweringError: The current runtime cannot run the requested ``lowering``.
    """
    return EncodedAggregationFactory(
        encoder,
        aggregator,
        lowering=lowering,
        min_size=min_size,
        names=names,
        tensor_metrics=tensor_metrics,
    )


class EncodedSumFactory(tff.aggregators.UnweightedAggregationFactory):
    """Encodes on the clients and adds the payloads up on the server, every client with weight 1.

    The process it creates has ``next`` of type ``(<S@SERVER,{V}@CLIENTS> ->
    <state=S@SERVER,result=V@SERVER,measurements=M@SERVER>)``, with the measurements of
    `fedplug.tff.process.aggregation.encoded_aggregation.EncodedAggregation`.
    """

    def __init__(self, encoded: EncodedAggregationFactory) -> None:
        self._encoded = encoded

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the aggregation process for values of ``value_type``.

        Raises:
            ConfigError: The type holds something else than tensors of known shapes.
        """
        weighted = self._encoded.create(value_type, tff.TensorType(np.float32))

        @tff.federated_computation(
            weighted.initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state: Structure, value: Structure) -> Structure:
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
        lowering: ``"auto"``, ``"fused"`` or ``"reference"``. See `fedplug.tff.process.tracing`.
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
    return EncodedSumFactory(
        EncodedAggregationFactory(
            encoder,
            Sum(),
            lowering=lowering,
            min_size=min_size,
            tensor_metrics=tensor_metrics,
            private=private,
        )
    )
