"""Federated averaging whose encoder keeps state on each client, which TFF's own process cannot do.

Client work and server optimizer are TFF's. `fedplug.Trainer` runs the process and keeps the clients' states
between rounds.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.errors import ConfigError
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.process import compatibility
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder
from fedplug.tff.process.aggregation.secure_aggregation import SecureAggregation
from fedplug.tff.process.arguments import (
    AnyEncoder,
    ModelFn,
    as_aggregator,
    as_encoder,
    check_replaced,
    with_weighting,
)
from fedplug.tff.process.broadcaster import Downlink, build_downlink
from fedplug.tff.process.learning.components import (
    LearningComponents,
    build_learning_components,
    weight_to_encode,
)
from fedplug.tff.process.learning.stateful_clients import (
    StatefulClientsProcess,
    assemble_process,
    build_initialize,
    round_output,
)
from fedplug.tff.process.tracing import choose_lowering
from fedplug.tff.structures import Structure

__all__ = ["build_weighted_fed_avg"]


def build_weighted_fed_avg(
    model_fn: ModelFn,
    client_optimizer_fn: tff.learning.optimizers.Optimizer,
    server_optimizer_fn: tff.learning.optimizers.Optimizer | None = None,
    *,
    encoder: AnyEncoder | None = None,
    broadcast_encoder: AnyEncoder | None = None,
    aggregator: Aggregator | str | None = None,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    tensor_metrics: bool = False,
    secure_sum: bool = False,
    client_weighting: tff.learning.ClientWeighting | None = None,
    model_distributor: None = None,
    model_aggregator: None = None,
    metrics_aggregator: Callable[..., tff.Computation] | None = None,
    loop_implementation: tff.learning.LoopImplementation | None = None,
) -> StatefulClientsProcess:
    """Builds federated averaging with compressed updates and client-local encoder state.

    In a round, the server sends its model, and each client trains on its data. The client encodes its update
    with its state from earlier rounds. The server sums the payloads, divides and applies its optimizer. The
    metrics are
    ``<distributor=<downlink_bytes=int64>,client_work=<train=...>,aggregator=<uplink_bytes=int64,clients=int32,
    payloads=int32,nonfinite_updates=int32>,finalizer=...>``. Bytes are summed over all clients of the round:
    the buffers sent up, and the model, its snapshots or its changed entries sent down.

    With ``broadcast_encoder`` the clients train on the decoded model, see
    `fedplug.tff.process.broadcaster.GraphBroadcaster`. A client's state is then
    ``<encoder=C,broadcast=<round_num=int32>>``, with the broadcast that it received last. It receives the
    entries that changed since, or a snapshot if that is shorter.

    A client whose update has a NaN or an infinity sends nothing, keeps its state and is counted in
    ``nonfinite_updates``. A client without examples does the same, uncounted.

    Args:
        model_fn: A function that makes a `tff.learning.models.VariableModel`, or a
            `tff.learning.models.FunctionalModel`.
        client_optimizer_fn: A `tff.learning.optimizers.Optimizer`. The name is TFF's.
        server_optimizer_fn: The server's optimizer. Default: plain averaging (SGD with learning rate 1).
        encoder: An encoder. An expression such as ``"topk(0.01)"``. Rules such as ``{"*/bias": "identity",
            "*": "topk(0.01)"}``, which match `variable_names`. None: uncompressed.
        broadcast_encoder: The same for the server's model, such as ``"bfp(5) | rans"``. It must send every
            entry with a small error.
        aggregator: An aggregator, an expression such as ``"mean"``, or None for the weighted mean.
        lowering: ``"fused"``, ``"reference"`` or ``"auto"``: the fused ops if the current runtime can load
            them, else their TensorFlow references, with equal results.
        min_size: Tensors with fewer elements are sent uncompressed.
        tensor_metrics: Whether ``aggregator`` of the metrics also has ``tensors`` with the bytes, the entropy
            bound, the error and the residual of each tensor, see
            `fedplug.tff.process.aggregation.encoded_aggregation.EncodedAggregation`.
        secure_sum: Whether only secure sums of integers leave the clients. It needs an encoder such as
            ``"sharedk(0.01, clients=10)"``, which encodes the whole update whatever ``min_size`` is, see
            `fedplug.tff.process.aggregation.secure_aggregation.SecureAggregation`. Examples count as weights
            if the encoder has a ``max_weight``.
        client_weighting: A `tff.learning.ClientWeighting`, as in TFF. ``UNIFORM`` means the aggregator
            ``"mean(weights='uniform')"``. Only without ``aggregator``, which has weights of its own.
        model_distributor: None. TFF's distributors do not send the payloads of ``broadcast_encoder``.
        model_aggregator: None. TFF's factories do not read the payloads of encoders.
        metrics_aggregator: The aggregator of training metrics, see TFF. Default:
            `tff.learning.metrics.sum_then_finalize`, or `secure_sum_then_finalize` under ``secure_sum``.
        loop_implementation: A `tff.learning.LoopImplementation`. Default: `DATASET_ITERATOR`.
            `DATASET_REDUCE` takes a little less time in the in-process runtime and twice as much in TFF's
            stock runtime. The last bits may differ.

    Raises:
        CapabilityError: The components are not compatible with each other or with the model, see
            `fedplug.tff.process.compatibility`, or ``broadcast_encoder`` leaves entries out or has a large
            error.
        ConfigError: An expression is not valid, the model has tensors of unknown shape, ``secure_sum`` is
            given with ``broadcast_encoder``, with ``tensor_metrics``, or with several encoders, or
            ``client_weighting`` with ``aggregator``.
        LoweringError: The current runtime cannot run the requested ``lowering``.
        TypeError: TFF cannot use the model or an optimizer.
    """
    chosen_encoder = as_encoder(encoder)
    check_replaced(model_distributor=model_distributor, model_aggregator=model_aggregator)
    chosen_aggregator = as_aggregator(with_weighting(aggregator, client_weighting))
    chosen_lowering = choose_lowering(lowering)
    by_examples = chosen_aggregator.weights_by_examples
    if secure_sum:
        by_examples = by_examples and getattr(chosen_encoder, "max_weight", None) is not None
        metrics_aggregator = metrics_aggregator or tff.learning.metrics.secure_sum_then_finalize
    weighting = tff.learning.ClientWeighting
    learning = build_learning_components(
        model_fn,
        client_optimizer_fn,
        server_optimizer_fn,
        weighting=weighting.NUM_EXAMPLES if by_examples else weighting.UNIFORM,
        metrics_aggregator=metrics_aggregator,
        loop_implementation=loop_implementation,
    )
    update_type = learning.update_type
    names = learning.names
    model = model_encoder(chosen_encoder, update_type, 0 if secure_sum else min_size, names.trainable)
    configuration = compatibility.Configuration.of(
        model, chosen_aggregator, keeps_client_state=True, secure_sum="integers" if secure_sum else None
    )
    compatibility.check(configuration)
    aggregation: EncodedAggregation | SecureAggregation
    if secure_sum:
        if tensor_metrics or not isinstance(chosen_encoder, SharedK):
            raise ConfigError(
                "secure_sum goes without tensor_metrics, and with one encoder for the whole update, such as "
                "'sharedk(0.01, clients=10)'"
            )
        aggregation = SecureAggregation(update_type, chosen_encoder, chosen_lowering)
    else:
        aggregation = EncodedAggregation(
            update_type, model, chosen_aggregator, chosen_lowering, tensor_metrics=tensor_metrics
        )
    downlink = build_downlink(
        learning.weights_type, broadcast_encoder, names, min_size, chosen_lowering, secure_sum=secure_sum
    )
    initialize = build_initialize(
        initial_weights=learning.initial_weights,
        distributor=downlink.distributor,
        client_work=learning.client_work,
        init_aggregator=aggregation.init_server,
        finalizer=learning.finalizer,
    )
    initialize_client = _build_initialize_client(aggregation, downlink)
    next_fn = _build_next(
        learning,
        aggregation,
        downlink,
        by_examples,
        initialize.type_signature.result,
        initialize_client.type_signature.result,
    )
    return assemble_process(
        "fedplug.tff.process.build_weighted_fed_avg",
        initialize,
        next_fn,
        initialize_client=initialize_client,
        encoder=model,
        broadcast_encoder=downlink.encoder,
        aggregator=chosen_aggregator,
        update_type=update_type,
        lowering=chosen_lowering,
        most_clients=chosen_encoder.capabilities.most_summands if secure_sum else None,
    )


def _build_initialize_client(
    aggregation: EncodedAggregation | SecureAggregation, downlink: Downlink
) -> tff.Computation:
    if not downlink.broadcast:
        return aggregation.init_client

    @tff.tensorflow.computation
    def initialize_client() -> Structure:
        return collections.OrderedDict(encoder=aggregation.init_client(), **downlink.init_client())

    return initialize_client


def _build_next(
    learning: LearningComponents,
    aggregation: EncodedAggregation | SecureAggregation,
    downlink: Downlink,
    by_examples: bool,
    state_type: tff.Type,
    client_state_type: tff.Type,
) -> tff.Computation:
    encoder_state_type = aggregation.init_client.type_signature.result
    server_message_type = aggregation.server_message.type_signature.result

    @tff.tensorflow.computation(
        learning.client_result_type, learning.data_type, encoder_state_type, server_message_type
    )
    def encode(
        result: Structure, dataset: Structure, client_state: Structure, server_message: Structure
    ) -> Structure:
        weight = weight_to_encode(result.update_weight, dataset, by_examples=by_examples)
        return aggregation.encode(result.update, weight, client_state, server_message)

    @tff.federated_computation(
        state_type,
        tff.FederatedType(learning.data_type, tff.CLIENTS),
        tff.FederatedType(client_state_type, tff.CLIENTS),
    )
    def next_fn(state: Structure, client_data: Structure, client_states: Structure) -> Structure:
        distributed = downlink.send(state, client_states)
        encoder_states = client_states["encoder"] if downlink.broadcast else client_states
        trained = learning.client_work.next(state.client_work, distributed.result, client_data)
        server_message = tff.federated_map(aggregation.server_message, state.aggregator)
        encoded = tff.federated_map(
            encode,
            (trained.result, client_data, encoder_states, tff.federated_broadcast(server_message)),
        )
        total = aggregation.aggregate(encoded.message)
        aggregated = tff.federated_map(aggregation.finish, (total, state.aggregator))
        finalized = learning.finalizer.next(state.finalizer, state.global_model_weights, aggregated.value)
        next_client_states = encoded.state
        if downlink.broadcast:
            next_client_states = tff.federated_zip(
                collections.OrderedDict(encoder=encoded.state, **downlink.client_state(distributed))
            )
        return round_output(
            distributor=distributed,
            client_work=trained,
            aggregator=aggregated,
            finalizer=finalized,
            client_states=next_client_states,
        )

    return next_fn
