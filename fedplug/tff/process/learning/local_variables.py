"""Federated averaging of models some of whose variables stay on the client and are kept from round to round.

A client trains its local variables, then the global ones. Updates of the latter are encoded as in
`encoded_aggregation`. `fedplug.Trainer` keeps the clients' variables as it keeps encoder state.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.errors import ConfigError
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.process import compatibility
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder
from fedplug.tff.process.arguments import AnyEncoder, as_aggregator, as_encoder, check_optimizers
from fedplug.tff.process.broadcaster import Downlink, build_downlink
from fedplug.tff.process.learning.components import build_finalizer, names_of
from fedplug.tff.process.learning.stateful_clients import (
    StatefulClientsProcess,
    assemble_process,
    build_initialize,
    round_output,
)
from fedplug.tff.process.tracing import choose_lowering
from fedplug.tff.structures import Structure

__all__ = ["ModelWithLocals", "build_local_variables_fed_avg", "build_train"]


def build_local_variables_fed_avg(
    model_fn: Callable[[], tff.learning.models.ReconstructionModel],
    loss_fn: Callable[[], tf.keras.losses.Loss],
    client_optimizer_fn: tff.learning.optimizers.Optimizer,
    local_optimizer_fn: tff.learning.optimizers.Optimizer,
    server_optimizer_fn: tff.learning.optimizers.Optimizer | None = None,
    *,
    local_epochs: int = 1,
    encoder: AnyEncoder | None = None,
    broadcast_encoder: AnyEncoder | None = None,
    aggregator: Aggregator | str | None = None,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
    tensor_metrics: bool = False,
) -> StatefulClientsProcess:
    """Builds federated averaging of the global variables. The local variables stay on each client.

    In a round, the server sends its global variables. Each client trains its local variables for
    ``local_epochs`` passes over its data, then the global ones for one pass. The update of the global
    variables is encoded, averaged and applied as in `build_weighted_fed_avg`. A client's state is
    ``<local=ModelWeights,encoder=...>``: its local variables persist, whereas
    `tff.learning.algorithms.build_fed_recon_eval` reinitializes them each round.

    The metrics are those of `build_weighted_fed_avg`, with ``client_work=<train=<loss=float32,
    num_examples=float32>>``: the mean loss over all examples, as seen before each step of the global pass.

    A client whose global or local variables become NaN or infinite sends nothing, keeps its state and is
    counted in ``nonfinite_updates``. A client without examples does the same, uncounted.

    Source: Pillutla et al., "Federated Learning with Partial Model Personalization", ICML 2022 (arXiv
    2204.03809), algorithm 2, FedAlt. The models are those of Singhal et al., "Federated Reconstruction",
    NeurIPS 2021 (arXiv 2102.03448).

    Args:
        model_fn: A function that makes a `tff.learning.models.ReconstructionModel`, which separates global
            and local variables. A new client starts with its local initial values.
        loss_fn: A function that makes a `tf.keras.losses.Loss`, the mean over a batch.
        client_optimizer_fn: A `tff.learning.optimizers.Optimizer` for the global variables on the clients.
        local_optimizer_fn: The optimizer of the local variables.
        server_optimizer_fn: The server's optimizer. Default: plain averaging (SGD with learning rate 1).
        local_epochs: Number of passes over the data for the local variables.
        encoder: The encoder of updates, see `build_weighted_fed_avg`.
        broadcast_encoder: The encoder of the global variables, see `build_weighted_fed_avg`. A client's state
            then also has ``broadcast``.
        aggregator: The aggregator, see `build_weighted_fed_avg`.
        lowering: See `build_weighted_fed_avg`.
        min_size: See `build_weighted_fed_avg`.
        tensor_metrics: See `build_weighted_fed_avg`.

    Raises:
        CapabilityError: The components are not compatible, see `build_weighted_fed_avg`.
        ConfigError: The model has no local or no global trainable variables, ``local_epochs`` is not a whole
            number of at least 1, or an expression is not valid.
        LoweringError: The current runtime cannot run the requested ``lowering``.
        TypeError: An optimizer is not one of TFF's.
    """
    if not isinstance(local_epochs, int) or isinstance(local_epochs, bool) or local_epochs < 1:
        raise ConfigError(f"local_epochs is {local_epochs!r}; it must be a whole number of at least 1")
    check_optimizers(
        client_optimizer_fn=client_optimizer_fn,
        local_optimizer_fn=local_optimizer_fn,
        server_optimizer_fn=server_optimizer_fn,
    )
    chosen_encoder = as_encoder(encoder)
    chosen_aggregator = as_aggregator(aggregator)
    chosen_lowering = choose_lowering(lowering)
    model = ModelWithLocals(model_fn, loss_fn)
    trainable_type = model.global_type.trainable
    encoding = model_encoder(chosen_encoder, trainable_type, min_size, model.global_names.trainable)
    compatibility.check(compatibility.Configuration.of(encoding, chosen_aggregator, keeps_client_state=True))
    aggregation = EncodedAggregation(
        trainable_type, encoding, chosen_aggregator, chosen_lowering, tensor_metrics=tensor_metrics
    )
    train = build_train(
        model, client_optimizer_fn, local_optimizer_fn, local_epochs, chosen_aggregator.weights_by_examples
    )
    finalizer = build_finalizer(server_optimizer_fn, model.global_type)
    downlink = build_downlink(
        model.global_type, broadcast_encoder, model.global_names, min_size, chosen_lowering
    )
    initialize = build_initialize(
        initial_weights=model.initial_global,
        distributor=downlink.distributor,
        init_aggregator=aggregation.init_server,
        finalizer=finalizer,
    )
    initialize_client = _build_initialize_client(model, aggregation, downlink)
    next_fn = _build_next(
        model,
        aggregation,
        downlink,
        train,
        finalizer,
        initialize.type_signature.result,
        initialize_client.type_signature.result,
    )
    return assemble_process(
        "fedplug.tff.process.build_local_variables_fed_avg",
        initialize,
        next_fn,
        initialize_client=initialize_client,
        encoder=encoding,
        broadcast_encoder=downlink.encoder,
        aggregator=chosen_aggregator,
        update_type=trainable_type,
        lowering=chosen_lowering,
    )


def _build_initialize_client(
    model: ModelWithLocals, aggregation: EncodedAggregation, downlink: Downlink
) -> tff.Computation:
    @tff.tensorflow.computation
    def initialize_client() -> Structure:
        return collections.OrderedDict(
            local=model.initial_local(), encoder=aggregation.init_client(), **downlink.init_client()
        )

    return initialize_client


def _build_next(
    model: ModelWithLocals,
    aggregation: EncodedAggregation,
    downlink: Downlink,
    train: tff.Computation,
    finalizer: tff.learning.templates.FinalizerProcess,
    state_type: tff.Type,
    client_state_type: tff.Type,
) -> tff.Computation:
    server_message_type = aggregation.server_message.type_signature.result

    @tff.tensorflow.computation(model.global_type, model.data_type, client_state_type, server_message_type)
    def work(
        weights: Structure, dataset: Structure, client_state: Structure, server_message: Structure
    ) -> Structure:
        trained = train(weights, client_state["local"], dataset)
        finite = _all_finite([*trained["update"], *trained["local"].trainable])
        # A NaN in place of the weight lets the encoding drop the update and count it.
        weight = tf.where(finite, trained["weight"], np.float32(np.nan))
        encoded = aggregation.encode(trained["update"], weight, client_state["encoder"], server_message)
        local = tf.nest.map_structure(
            lambda new, old: tf.where(finite, new, old), trained["local"], client_state["local"]
        )
        return collections.OrderedDict(
            message=encoded["message"],
            state=collections.OrderedDict(local=local, encoder=encoded["state"]),
            loss=tf.where(finite, trained["loss"], 0.0),
            num_examples=tf.where(finite, trained["num_examples"], 0.0),
        )

    @tff.tensorflow.computation(np.float32, np.float32)
    def train_metrics(loss: Structure, num_examples: Structure) -> Structure:
        loss = tf.math.divide_no_nan(loss, num_examples)
        return collections.OrderedDict(train=collections.OrderedDict(loss=loss, num_examples=num_examples))

    @tff.federated_computation(
        state_type,
        tff.FederatedType(model.data_type, tff.CLIENTS),
        tff.FederatedType(client_state_type, tff.CLIENTS),
    )
    def next_fn(state: Structure, client_data: Structure, client_states: Structure) -> Structure:
        distributed = downlink.send(state, client_states)
        server_message = tff.federated_map(aggregation.server_message, state.aggregator)
        done = tff.federated_map(
            work,
            (
                distributed.result,
                client_data,
                client_states,
                tff.federated_broadcast(server_message),
            ),
        )
        total = aggregation.aggregate(done.message)
        aggregated = tff.federated_map(aggregation.finish, (total, state.aggregator))
        finalized = finalizer.next(state.finalizer, state.global_model_weights, aggregated.value)
        loss, num_examples = tff.federated_sum(done.loss), tff.federated_sum(done.num_examples)
        next_client_states = done.state
        if downlink.broadcast:
            next_client_states = tff.federated_zip(
                collections.OrderedDict(
                    local=done.state.local,
                    encoder=done.state.encoder,
                    **downlink.client_state(distributed),
                )
            )
        return round_output(
            distributor=distributed,
            client_work=tff.templates.MeasuredProcessOutput(
                state.client_work, done.message, tff.federated_map(train_metrics, (loss, num_examples))
            ),
            aggregator=aggregated,
            finalizer=finalized,
            client_states=next_client_states,
        )

    return next_fn


def _all_finite(tensors: list[Structure]) -> Structure:
    floats = [x for x in tensors if x.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in floats])


_Reconstruction = tff.learning.models.ReconstructionModel


class ModelWithLocals:
    """A model with local variables: its types, its names and the initial values of its variables.

    Raises:
        ConfigError: The model has no local or no global trainable variables.
    """

    def __init__(
        self,
        model_fn: Callable[[], tff.learning.models.ReconstructionModel],
        loss_fn: Callable[[], tf.keras.losses.Loss],
    ) -> None:
        self.make = model_fn
        self.make_loss = loss_fn

        @tff.tensorflow.computation
        def initial_global() -> Structure:
            return _values(_Reconstruction.get_global_variables(model_fn()))

        @tff.tensorflow.computation
        def initial_local() -> Structure:
            return _values(_Reconstruction.get_local_variables(model_fn()))

        self.initial_global, self.initial_local = initial_global, initial_local
        self.global_type = initial_global.type_signature.result
        self.local_type = initial_local.type_signature.result
        with tf.Graph().as_default():
            model = model_fn()
            self.data_type = tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec))
            self.global_names = names_of(_Reconstruction.get_global_variables(model))
            for kind in ("global", "local"):
                if not getattr(model, f"{kind}_trainable_variables"):
                    raise ConfigError(
                        f"the model has no {kind} trainable variables; this process is for models that have "
                        "local and global ones, for others there is build_weighted_fed_avg"
                    )


def _values(weights: Structure) -> Structure:
    return tff.learning.models.ModelWeights(
        tuple(tf.identity(v) for v in weights.trainable),
        tuple(tf.identity(v) for v in weights.non_trainable),
    )


def _assign(variables: Structure, values: Structure) -> None:
    for variable, value in zip(
        (*variables.trainable, *variables.non_trainable),
        (*values.trainable, *values.non_trainable),
        strict=True,
    ):
        variable.assign(value)


def _specs(variables: Structure) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(v.shape, v.dtype) for v in variables)


def build_train(
    model: ModelWithLocals,
    client_optimizer: tff.learning.optimizers.Optimizer,
    local_optimizer: tff.learning.optimizers.Optimizer,
    local_epochs: int,
    weights_by_examples: bool,
) -> tff.Computation:
    """``(<W,L,D*> -> <update=V,weight=float32,local=L,loss=float32,num_examples=float32>)``, on a client."""

    @tff.tensorflow.computation(model.global_type, model.local_type, model.data_type)
    @tf.function
    def train(initial: Structure, initial_local: Structure, dataset: Structure) -> Structure:
        with tf.init_scope():
            variables = model.make()
            loss_of = model.make_loss()
        shared = _Reconstruction.get_global_variables(variables)
        local = _Reconstruction.get_local_variables(variables)
        _assign(shared, initial)
        _assign(local, initial_local)

        def step(
            batch: Structure,
            trained: Structure,
            optimizer: tff.learning.optimizers.Optimizer,
            optimizer_state: Structure,
        ) -> Structure:
            with tf.GradientTape() as tape:
                output = variables.forward_pass(batch, training=True)
                loss = loss_of(y_true=output.labels, y_pred=output.predictions)
            gradients = tape.gradient(loss, trained, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            # The gradients of embeddings are slices, which TFF's optimizers do not take.
            gradients = tuple(tf.convert_to_tensor(g) for g in gradients)
            next_state, values = optimizer.next(optimizer_state, tuple(v.value() for v in trained), gradients)
            for variable, value in zip(trained, values, strict=True):
                variable.assign(value)
            return next_state, loss, tf.cast(output.num_examples, tf.float32)

        # Over iterators: a loop over the dataset itself becomes a reduction, which TFF's stock runtime makes
        # ten times more expensive.
        local_state = local_optimizer.initialize(_specs(local.trainable))
        for batch in iter(dataset.repeat(local_epochs)):
            local_state, _, _ = step(batch, local.trainable, local_optimizer, local_state)
        state = client_optimizer.initialize(_specs(shared.trainable))
        loss_sum, num_examples = tf.constant(0.0), tf.constant(0.0)
        for batch in iter(dataset):
            state, loss, count = step(batch, shared.trainable, client_optimizer, state)
            loss_sum += loss * count
            num_examples += count
        weight = num_examples if weights_by_examples else tf.cast(num_examples > 0, tf.float32)
        return collections.OrderedDict(
            update=tuple(a - b for a, b in zip(initial.trainable, shared.trainable, strict=True)),
            weight=weight,
            local=_values(local),
            loss=loss_sum,
            num_examples=num_examples,
        )

    return train
