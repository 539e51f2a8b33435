"""Federated averaging whose encoder keeps state on each client: what TFF's own averaging process cannot do.

Everything but the encoding is TFF's: client work, model distribution, server optimizer. Must not know stores
or runtimes; `fedplug.Trainer` drives the process and keeps the clients' states between rounds.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.aggregators.base import Aggregator
from fedplug.encoders.model import DEFAULT_MIN_SIZE
from fedplug.process import stack_rules
from fedplug.process.broadcast import (
    EncodedBroadcast,
    build_catch_up_distributor,
    build_distributor,
    build_encoded_broadcast,
)
from fedplug.process.dropped_updates import build_has_data, weight_to_encode
from fedplug.process.encoded_aggregation import EncodedAggregation, build_encoded_aggregation, model_encoder
from fedplug.process.lowering import choose_lowering
from fedplug.process.names import variable_names
from fedplug.process.parts import AnyEncoder, as_aggregator, as_encoder, check_model, check_optimizers
from fedplug.process.stateful_clients import StatefulClientsProcess, assemble_process

__all__ = ["build_weighted_fed_avg"]


def build_weighted_fed_avg(
    model_fn: Callable[[], Any] | Any,
    client_optimizer: Any,
    server_optimizer: Any = None,
    *,
    encoder: AnyEncoder | None = None,
    broadcast_encoder: AnyEncoder | None = None,
    aggregator: Aggregator | str | None = None,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    metrics_aggregator: Any = None,
    loop_implementation: Any = None,
) -> StatefulClientsProcess:
    """Builds federated averaging with compressed updates and client-local encoder state.

    A round: the server's model goes to the clients; each trains on its data; the difference is encoded
    together with what that client kept from earlier rounds; the server adds the payloads up, averages and
    applies its optimizer. The metrics are
    ``<distributor=<downlink_bytes=int64>,client_work=<train=...>,aggregator=<uplink_bytes=int64,clients=int32,
    payloads=int32,nonfinite_updates=int32>,finalizer=...>``; bytes are those of all clients of the round,
    uplink the lengths of the buffers sent, downlink those of the model or of the messages it came in.

    With ``broadcast_encoder`` the clients train on the model as sent, see
    `fedplug.process.broadcast.EncodedBroadcast`; a client's state is then
    ``<encoder=C,broadcast=int64>``, where the latter says how far it heard the server, so that one that
    missed rounds is sent what it takes to catch up, and no more.

    A client whose update has a NaN or an infinity sends nothing, is counted in ``nonfinite_updates``, and
    keeps its state. So does, uncounted, a client without examples.

    Args:
        model_fn: As for `tff.learning.algorithms.build_weighted_fed_avg`: a function that makes a
            `tff.learning.models.VariableModel`, or a `tff.learning.models.FunctionalModel`.
        client_optimizer: A `tff.learning.optimizers.Optimizer`.
        server_optimizer: Another; default: plain averaging (SGD with learning rate 1).
        encoder: An encoder; an expression such as ``"topk(0.01)"``; rules such as ``{"*/bias": "identity",
            "*": "topk(0.01)"}``, which go by `variable_names`; or None for none.
        broadcast_encoder: The same for the way to the clients.
        aggregator: An aggregator, an expression such as ``"mean"``, or None for the weighted mean.
        lowering: ``"auto"``: the fused ops where the current runtime can load them, else their plain-TF
            twins, with equal results; or ``"fused"`` or ``"reference"``.
        min_size: Tensors with fewer elements are sent as they are.
        metrics_aggregator: As in TFF; default `tff.learning.metrics.sum_then_finalize`.
        loop_implementation: A `tff.learning.LoopImplementation`; default: the dataset iterator, which is
            several times cheaper than TFF's default in the in-process runtime.

    Raises:
        CapabilityError: The parts do not go together with each other or with the model, see
            `fedplug.process.stack_rules`, or ``broadcast_encoder`` leaves out more than it is given.
        ConfigError: An expression is not valid, or the model has tensors of unknown shape.
        LoweringError: The current runtime cannot run what ``lowering`` asks for.
        TypeError: The model or an optimizer is something else than TFF takes.
    """
    check_model(model_fn)
    check_optimizers(client_optimizer=client_optimizer, server_optimizer=server_optimizer)
    chosen_encoder = as_encoder(encoder)
    chosen_aggregator = as_aggregator(aggregator)
    chosen_lowering = choose_lowering(lowering)
    by_examples = chosen_aggregator.weights_by_examples
    template = _template(
        model_fn,
        client_optimizer,
        server_optimizer,
        tff.learning.ClientWeighting.NUM_EXAMPLES if by_examples else tff.learning.ClientWeighting.UNIFORM,
        metrics_aggregator,
        loop_implementation or tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
    update_type = template.update_type
    names = variable_names(model_fn)
    model = model_encoder(chosen_encoder, update_type, min_size, names.trainable)
    stack_rules.check(stack_rules.Stack.of(model, chosen_aggregator, keeps_client_state=True))
    parts = build_encoded_aggregation(update_type, model, chosen_aggregator, chosen_lowering)
    broadcast = None
    if broadcast_encoder is not None:
        all_names = [*names.trainable, *names.non_trainable]
        downlink_model = model_encoder(
            as_encoder(broadcast_encoder), template.weights_type, min_size, all_names
        )
        broadcast = build_encoded_broadcast(template.weights_type, downlink_model, chosen_lowering)
        template.distributor = build_catch_up_distributor(broadcast)
    initialize = _build_initialize(template, parts)
    initialize_client = _build_initialize_client(parts, broadcast)
    next_fn = _build_next(
        template,
        parts,
        initialize.type_signature.result,
        initialize_client.type_signature.result,
        catches_up=broadcast is not None,
    )
    return assemble_process(
        "fedplug.process.build_weighted_fed_avg",
        initialize,
        next_fn,
        initialize_client=initialize_client,
        encoder=model,
        broadcast_encoder=broadcast and broadcast.encoder,
        aggregator=chosen_aggregator,
        update_type=update_type,
        lowering=chosen_lowering,
    )


class _Template:
    """The parts TFF brings: initial weights, distributor, client work, finalizer."""

    def __init__(self, initial_weights: Any, client_work: Any, server_optimizer: Any) -> None:
        self.initial_weights = initial_weights
        self.weights_type = initial_weights.type_signature.result
        self.update_type = self.weights_type.trainable
        self.distributor = build_distributor(self.weights_type)
        self.client_work = client_work
        self.finalizer = tff.learning.templates.build_apply_optimizer_finalizer(
            server_optimizer, self.weights_type
        )
        self.data_type = client_work.next.type_signature.parameter[2].member


def _template(
    model_fn: Any,
    client_optimizer: Any,
    server_optimizer: Any,
    weighting: Any,
    metrics_aggregator: Any,
    loop: Any,
) -> _Template:
    functional = isinstance(model_fn, tff.learning.models.FunctionalModel)

    @tff.tensorflow.computation
    def initial_weights() -> Any:
        if functional:
            trainable, non_trainable = model_fn.initial_weights
            return tff.learning.models.ModelWeights(
                tuple(tf.convert_to_tensor(w) for w in trainable),
                tuple(tf.convert_to_tensor(w) for w in non_trainable),
            )
        return tff.learning.models.ModelWeights.from_model(model_fn())

    options = {"metrics_aggregator": metrics_aggregator, "loop_implementation": loop}
    if functional:
        client_work = tff.learning.templates.build_functional_model_delta_client_work(
            model=model_fn, optimizer=client_optimizer, client_weighting=weighting, **options
        )
    else:
        client_work = tff.learning.templates.build_model_delta_client_work(
            model_fn, client_optimizer, weighting, **options
        )
    default_server = tff.learning.optimizers.build_sgdm(learning_rate=1.0)
    return _Template(
        initial_weights, client_work, default_server if server_optimizer is None else server_optimizer
    )


def _build_initialize(template: _Template, parts: EncodedAggregation) -> Any:
    @tff.federated_computation
    def initialize() -> Any:
        state = tff.learning.templates.LearningAlgorithmState(
            global_model_weights=tff.federated_eval(template.initial_weights, tff.SERVER),
            distributor=template.distributor.initialize(),
            client_work=template.client_work.initialize(),
            aggregator=tff.federated_eval(parts.init_server, tff.SERVER),
            finalizer=template.finalizer.initialize(),
        )
        return tff.federated_zip(state)

    return initialize


def _build_initialize_client(parts: EncodedAggregation, broadcast: EncodedBroadcast | None) -> Any:
    if broadcast is None:
        return parts.init_client

    @tff.tensorflow.computation
    def initialize_client() -> Any:
        return collections.OrderedDict(encoder=parts.init_client(), broadcast=broadcast.init_client())

    return initialize_client


def _build_next(
    template: _Template,
    parts: EncodedAggregation,
    state_type: Any,
    client_state_type: Any,
    *,
    catches_up: bool,
) -> Any:
    encoder_state_type = parts.init_client.type_signature.result
    client_result_type = template.client_work.next.type_signature.result.result.member

    has_data = build_has_data(template.data_type)

    @tff.tensorflow.computation(
        client_result_type, np.bool_, encoder_state_type, parts.instruct.type_signature.result
    )
    def encode(result: Any, with_data: Any, client_state: Any, instructions: Any) -> Any:
        weight = weight_to_encode(result.update_weight, with_data)
        return parts.encode(result.update, weight, client_state, instructions)

    @tff.federated_computation(
        state_type,
        tff.FederatedType(template.data_type, tff.CLIENTS),
        tff.FederatedType(client_state_type, tff.CLIENTS),
    )
    def next_fn(state: Any, client_data: Any, client_states: Any) -> Any:
        sent = (state.distributor, state.global_model_weights)
        if catches_up:
            encoder_states = client_states["encoder"]
            distributed = template.distributor.next(*sent, client_states["broadcast"])
        else:
            encoder_states = client_states
            distributed = template.distributor.next(*sent)
        trained = template.client_work.next(state.client_work, distributed.result, client_data)
        instructions = tff.federated_map(parts.instruct, state.aggregator)
        encoded = tff.federated_map(
            encode,
            (
                trained.result,
                tff.federated_map(has_data, client_data),
                encoder_states,
                tff.federated_broadcast(instructions),
            ),
        )
        total = parts.total(encoded.message)
        aggregated = tff.federated_map(parts.finish, (total, state.aggregator))
        finalized = template.finalizer.next(state.finalizer, state.global_model_weights, aggregated.value)
        next_state = tff.learning.templates.LearningAlgorithmState(
            global_model_weights=finalized.result,
            distributor=distributed.state,
            client_work=trained.state,
            aggregator=aggregated.state,
            finalizer=finalized.state,
        )
        metrics = collections.OrderedDict(
            distributor=distributed.measurements,
            client_work=trained.measurements,
            aggregator=aggregated.measurements,
            finalizer=finalized.measurements,
        )
        next_client_states = encoded.state
        if catches_up:
            next_client_states = tff.federated_zip(
                collections.OrderedDict(encoder=encoded.state, broadcast=distributed.positions)
            )
        return collections.OrderedDict(
            state=tff.federated_zip(next_state),
            metrics=tff.federated_zip(metrics),
            client_states=next_client_states,
        )

    return next_fn
