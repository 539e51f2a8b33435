"""Federated averaging that determines the weight of each client by layer and by round.

It is a process of its own: weights by divergence need the server's model on the client, and the choice in a
round needs the clients' losses, neither of which aggregators receive. The components are fedplug's and TFF's:
client work, encoding, one-pass aggregation, finalizer. A `Trainer` can drive the process.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.errors import ConfigError
from fedplug.tff.process import (
    StatefulClientsProcess,
    assemble_process,
    build_distributor,
    choose_lowering,
    compatibility,
)
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder
from fedplug.tff.process.arguments import AnyEncoder, ModelFn, as_encoder
from fedplug.tff.process.learning.components import (
    LearningComponents,
    build_learning_components,
    weight_to_encode,
)
from fedplug.tff.process.learning.stateful_clients import build_initialize, round_output
from fedplug.tff.structures import Structure
from fedplug_adaptive.layer_weights import DivergenceSoftmax, layer_divergences

__all__ = ["build_adaptive_fed_avg"]

_WEIGHTINGS = ("auto", "adaptive", "plain")


def build_adaptive_fed_avg(
    model_fn: ModelFn,
    client_optimizer_fn: tff.learning.optimizers.Optimizer,
    server_optimizer_fn: tff.learning.optimizers.Optimizer | None = None,
    *,
    layers: Sequence[int] | None = None,
    temperature: float = 0.001,
    weighting: str = "auto",
    encoder: AnyEncoder | None = None,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    tensor_metrics: bool = False,
    metrics_aggregator: Callable[..., tff.Computation] | None = None,
) -> StatefulClientsProcess:
    """Builds federated averaging in which a client weighs less in layers where it diverges from the server.

    In an adaptive round, client c with ``n_c`` examples weighs ``n_c exp(-D_c[l] / temperature)`` in layer l,
    where ``D_c[l]`` is the divergence of its trained model from the server's
    (`fedplug_adaptive.layer_weights.layer_divergences`). In a plain round it weighs ``n_c``. A round is
    adaptive if the clients' mean training loss is not below that of the previous round. The first round is
    plain.

    Each client sends one number per layer with its update, and the server computes a softmax of the
    divergences as updates arrive.

    The metrics are those of `fedplug.tff.process.build_weighted_fed_avg`, with two more for the aggregator:
    ``adaptive=bool``, and ``report=float32[layers]``, the mean over clients of the
    divergences. Updates that are not finite and clients without examples are treated as
    in that function.

    The process follows Wu, Liang & Wang, "FedMed: A Federated Learning Framework for Language Modeling",
    Sensors 2020, 20(14), 4048, in two ideas: weights by layer from a divergence, and a choice between these
    and plain averaging by the change of the loss. The formulas are the ones above.

    Args:
        model_fn: A function that makes a `tff.learning.models.VariableModel` with a metric ``loss``, such as
            one of `tff.learning.models.from_keras_model`.
        client_optimizer_fn: A `tff.learning.optimizers.Optimizer`.
        server_optimizer_fn: A `tff.learning.optimizers.Optimizer`; SGD with learning rate 1 by default.
        layers: The layer number of each trainable tensor, from 0; by default each tensor is a layer.
        temperature: Increase of the divergence that divides a client's weight by e. Divergences are small.
            The metric ``report`` shows their size.
        weighting: ``"auto"`` to choose in each round as above. ``"adaptive"`` or ``"plain"`` for all rounds.
        encoder: See `fedplug.tff.process.build_weighted_fed_avg`.
        lowering: See `fedplug.tff.process.build_weighted_fed_avg`.
        min_size: Minimum number of elements to encode. It must exceed the number of layers, so that reports
            are sent uncompressed.
        tensor_metrics: Whether the metrics include each tensor. The reports are the last one.
        metrics_aggregator: See `fedplug.tff.process.build_weighted_fed_avg`.

    Raises:
        CapabilityError: The encoder does not fit the model, see `fedplug.tff.process.compatibility`.
        ConfigError: An argument is invalid, or the model has no metric ``loss``.
        LoweringError: The current runtime does not support ``lowering``.
    """
    if weighting not in _WEIGHTINGS:
        raise ConfigError(f"weighting is {weighting!r}; it must be one of {', '.join(_WEIGHTINGS)}")
    learning = build_learning_components(
        model_fn,
        client_optimizer_fn,
        server_optimizer_fn,
        weighting=tff.learning.ClientWeighting.NUM_EXAMPLES,
        metrics_aggregator=metrics_aggregator,
    )
    _require_loss(learning)
    chosen_layers = list(range(len(learning.update_type))) if layers is None else list(layers)
    aggregator = DivergenceSoftmax(chosen_layers, temperature=temperature)
    if len(chosen_layers) != len(learning.update_type):
        raise ConfigError(
            f"layers has {len(chosen_layers)} numbers for {len(learning.update_type)} trainable tensors; "
            "give one for each"
        )
    if min_size <= max(chosen_layers) + 1:
        raise ConfigError(
            f"min_size is {min_size}, which would encode the reports of {max(chosen_layers) + 1} layers too; "
            "make it larger"
        )
    value_type = tff.to_type(
        collections.OrderedDict(
            update=learning.update_type, report=tff.TensorType(np.float32, [max(chosen_layers) + 1])
        )
    )
    names = [*learning.names.trainable, "report"]
    model = model_encoder(as_encoder(encoder), value_type, min_size, names)
    compatibility.check(compatibility.Configuration.of(model, aggregator, keeps_client_state=True))
    chosen_lowering = choose_lowering(lowering)
    aggregation = EncodedAggregation(
        value_type, model, aggregator, chosen_lowering, tensor_metrics=tensor_metrics
    )
    report = _build_report(learning, chosen_layers)
    distributor = build_distributor(learning.weights_type)
    initialize = build_initialize(
        initial_weights=learning.initial_weights,
        distributor=distributor,
        client_work=learning.client_work,
        init_aggregator=aggregation.init_server,
        finalizer=learning.finalizer,
    )
    next_fn = _build_next(
        learning, aggregation, distributor, report, weighting, initialize.type_signature.result
    )
    return assemble_process(
        "fedplug_adaptive.process.build_adaptive_fed_avg",
        initialize,
        next_fn,
        initialize_client=aggregation.init_client,
        encoder=model,
        aggregator=aggregator,
        update_type=learning.update_type,
        lowering=chosen_lowering,
    )


def _require_loss(learning: LearningComponents) -> None:
    metrics = learning.client_work.next.type_signature.result.measurements.member
    if "train" not in dir(metrics) or "loss" not in dir(metrics.train):
        raise ConfigError(
            "the model has no metric named 'loss', by which rounds are chosen; from_keras_model adds one "
            "and a metrics_aggregator must keep it"
        )


def _build_report(learning: LearningComponents, layers: Sequence[int]) -> tff.Computation:
    """Builds ``(<W,V> -> float32[layers])``, from server weights and a client's update to its report."""

    @tff.tensorflow.computation(learning.weights_type, learning.update_type)
    @tf.function
    def report(weights: Structure, update: Structure) -> Structure:
        server = list(weights.trainable)
        return layer_divergences([w - u for w, u in zip(server, update, strict=True)], server, layers)

    return report


def _build_next(
    learning: LearningComponents,
    aggregation: EncodedAggregation,
    distributor: tff.learning.templates.DistributionProcess,
    report: tff.Computation,
    weighting: str,
    state_type: tff.Type,
) -> tff.Computation:
    client_state_type = aggregation.init_client.type_signature.result
    server_state_type = aggregation.init_server.type_signature.result

    @tff.tensorflow.computation(
        learning.client_result_type,
        learning.weights_type,
        learning.data_type,
        client_state_type,
        aggregation.server_message.type_signature.result,
    )
    def encode(
        result: Structure,
        weights: Structure,
        dataset: Structure,
        client_state: Structure,
        server_message: Structure,
    ) -> Structure:
        weight = weight_to_encode(result.update_weight, dataset, by_examples=True)
        value = collections.OrderedDict(update=result.update, report=report(weights, result.update))
        return aggregation.encode(value, weight, client_state, server_message)

    @tff.tensorflow.computation(server_state_type, np.float32)
    def choose(state: Structure, loss: Structure) -> Structure:
        previous = state["inner"]["previous_loss"]
        fallen = loss < previous
        adaptive = tf.constant(weighting == "adaptive") if weighting != "auto" else ~fallen
        # A loss that is not finite cannot be compared with later ones.
        known = tf.where(tf.math.is_finite(loss), loss, previous)
        inner = collections.OrderedDict(adaptive=adaptive, previous_loss=known)
        return collections.OrderedDict(state, inner=inner)

    @tff.tensorflow.computation(aggregation.finish.type_signature.parameter[0], server_state_type)
    def finish(total: Structure, state: Structure) -> Structure:
        finished = aggregation.finish(total, state)
        measurements = collections.OrderedDict(
            finished["measurements"],
            adaptive=finished["state"]["inner"]["adaptive"],
            report=finished["value"]["report"],
        )
        return collections.OrderedDict(finished, measurements=measurements)

    @tff.federated_computation(
        state_type,
        tff.FederatedType(learning.data_type, tff.CLIENTS),
        tff.FederatedType(client_state_type, tff.CLIENTS),
    )
    def next_fn(state: Structure, client_data: Structure, client_states: Structure) -> Structure:
        distributed = distributor.next(state.distributor, state.global_model_weights)
        trained = learning.client_work.next(state.client_work, distributed.result, client_data)
        server_message = tff.federated_map(aggregation.server_message, state.aggregator)
        encoded = tff.federated_map(
            encode,
            (
                trained.result,
                distributed.result,
                client_data,
                client_states,
                tff.federated_broadcast(server_message),
            ),
        )
        total = aggregation.aggregate(encoded.message)
        chosen = tff.federated_map(choose, (state.aggregator, trained.measurements.train.loss))
        aggregated = tff.federated_map(finish, (total, chosen))
        finalized = learning.finalizer.next(
            state.finalizer, state.global_model_weights, aggregated.value.update
        )
        return round_output(
            distributor=distributed,
            client_work=trained,
            aggregator=aggregated,
            finalizer=finalized,
            client_states=encoded.state,
        )

    return next_fn
