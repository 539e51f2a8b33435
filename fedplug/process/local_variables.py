"""Federated averaging of models some of whose variables stay on the client and are kept from round to round.

Client training, and the process around it; the encoding is that of `encoded_aggregation`. Must not know
stores or runtimes; `fedplug.Trainer` drives the process and keeps the clients' variables as it keeps encoder
state.
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
from fedplug.errors import ConfigError
from fedplug.process import stack_rules
from fedplug.process.broadcast import (
    EncodedBroadcast,
    build_catch_up_distributor,
    build_distributor,
    build_encoded_broadcast,
)
from fedplug.process.encoded_aggregation import EncodedAggregation, build_encoded_aggregation, model_encoder
from fedplug.process.learning_parts import build_finalizer
from fedplug.process.lowering import choose_lowering
from fedplug.process.names import names_of
from fedplug.process.parts import AnyEncoder, as_aggregator, as_encoder, check_optimizers
from fedplug.process.round_frame import build_initialize, round_output
from fedplug.process.stateful_clients import StatefulClientsProcess, assemble_process

__all__ = ["build_local_variables_fed_avg"]

_Reconstruction = tff.learning.models.ReconstructionModel


def build_local_variables_fed_avg(
    model_fn: Callable[[], Any],
    loss_fn: Callable[[], Any],
    client_optimizer: Any,
    local_optimizer: Any,
    server_optimizer: Any = None,
    *,
    local_epochs: int = 1,
    encoder: AnyEncoder | None = None,
    broadcast_encoder: AnyEncoder | None = None,
    aggregator: Aggregator | str | None = None,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
) -> StatefulClientsProcess:
    """Builds federated averaging with variables that stay on each client beside those that are averaged.

    A round: the server's global variables go to the clients; each first trains its local variables for some
    passes over its data, the global ones standing still, then the global ones for one pass, the local ones
    standing still; the change of the global variables is encoded, averaged and applied as in
    `build_weighted_fed_avg`. A client's state is ``<local=ModelWeights,encoder=...>``: it finds its local
    variables again as it left them, where `tff.learning.algorithms.build_fed_recon_eval` and its kin start
    anew each round.

    The metrics are those of `build_weighted_fed_avg`, with ``client_work=<train=<loss=float32,
    num_examples=float32>>``: the mean loss over all examples, as seen before each step of the global pass.

    A client whose global or local variables become NaN or infinite sends nothing, is counted in
    ``nonfinite_updates``, and keeps its state. So does, uncounted, a client without examples.

    Source: Pillutla et al., "Federated Learning with Partial Model Personalization", ICML 2022 (arXiv
    2204.03809), algorithm 2, FedAlt; the models are those of Singhal et al., "Federated Reconstruction",
    NeurIPS 2021 (arXiv 2102.03448).

    Args:
        model_fn: Makes a `tff.learning.models.ReconstructionModel`, which says which variables are global and
            which are local. The initial values it gives the local ones are those of a client that takes part
            for the first time.
        loss_fn: Makes a `tf.keras.losses.Loss`, the mean over a batch.
        client_optimizer: A `tff.learning.optimizers.Optimizer` for the global variables on the clients.
        local_optimizer: Another, for the local variables.
        server_optimizer: Another; default: plain averaging (SGD with learning rate 1).
        local_epochs: Passes over the data for the local variables.
        encoder: As in `build_weighted_fed_avg`.
        broadcast_encoder: As in `build_weighted_fed_avg`; of the global variables. A client's state then has
            ``broadcast=int64`` as well.
        aggregator: As in `build_weighted_fed_avg`.
        lowering: As in `build_weighted_fed_avg`.
        min_size: As in `build_weighted_fed_avg`.

    Raises:
        CapabilityError: The parts do not go together, see `build_weighted_fed_avg`.
        ConfigError: The model has no local or no global trainable variables, ``local_epochs`` is not a whole
            number of at least 1, or an expression is not valid.
        LoweringError: The current runtime cannot run what ``lowering`` asks for.
        TypeError: An optimizer is none of TFF.
    """
    if not isinstance(local_epochs, int) or isinstance(local_epochs, bool) or local_epochs < 1:
        raise ConfigError(f"local_epochs is {local_epochs!r}; it must be a whole number, 1 up")
    check_optimizers(
        client_optimizer=client_optimizer, local_optimizer=local_optimizer, server_optimizer=server_optimizer
    )
    chosen_encoder = as_encoder(encoder)
    chosen_aggregator = as_aggregator(aggregator)
    chosen_lowering = choose_lowering(lowering)
    model = _Model(model_fn, loss_fn)
    trainable_type = model.global_type.trainable
    encoding = model_encoder(chosen_encoder, trainable_type, min_size, model.global_names.trainable)
    stack_rules.check(stack_rules.Stack.of(encoding, chosen_aggregator, keeps_client_state=True))
    parts = build_encoded_aggregation(trainable_type, encoding, chosen_aggregator, chosen_lowering)
    train = _build_train(
        model, client_optimizer, local_optimizer, local_epochs, chosen_aggregator.weights_by_examples
    )
    finalizer = build_finalizer(server_optimizer, model.global_type)
    broadcast, distributor = None, build_distributor(model.global_type)
    if broadcast_encoder is not None:
        all_names = [*model.global_names.trainable, *model.global_names.non_trainable]
        downlink_model = model_encoder(as_encoder(broadcast_encoder), model.global_type, min_size, all_names)
        broadcast = build_encoded_broadcast(model.global_type, downlink_model, chosen_lowering)
        distributor = build_catch_up_distributor(broadcast)
    initialize = build_initialize(
        initial_weights=model.initial_global,
        distributor=distributor,
        init_aggregator=parts.init_server,
        finalizer=finalizer,
    )
    initialize_client = _build_initialize_client(model, parts, broadcast)
    next_fn = _build_next(
        model,
        parts,
        distributor,
        train,
        finalizer,
        initialize.type_signature.result,
        initialize_client.type_signature.result,
        catches_up=broadcast is not None,
    )
    return assemble_process(
        "fedplug.process.build_local_variables_fed_avg",
        initialize,
        next_fn,
        initialize_client=initialize_client,
        encoder=encoding,
        broadcast_encoder=broadcast and broadcast.encoder,
        aggregator=chosen_aggregator,
        update_type=trainable_type,
        lowering=chosen_lowering,
    )


class _Model:
    """What the model says of itself, and the initial values of its variables."""

    def __init__(self, model_fn: Callable[[], Any], loss_fn: Callable[[], Any]) -> None:
        self.make = model_fn
        self.make_loss = loss_fn

        @tff.tensorflow.computation
        def initial_global() -> Any:
            return _values(_Reconstruction.get_global_variables(model_fn()))

        @tff.tensorflow.computation
        def initial_local() -> Any:
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


def _values(weights: Any) -> Any:
    return tff.learning.models.ModelWeights(
        tuple(tf.identity(v) for v in weights.trainable),
        tuple(tf.identity(v) for v in weights.non_trainable),
    )


def _assign(variables: Any, values: Any) -> None:
    for variable, value in zip(
        (*variables.trainable, *variables.non_trainable),
        (*values.trainable, *values.non_trainable),
        strict=True,
    ):
        variable.assign(value)


def _specs(variables: Any) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(v.shape, v.dtype) for v in variables)


def _build_train(
    model: _Model, client_optimizer: Any, local_optimizer: Any, local_epochs: int, weights_by_examples: bool
) -> Any:
    """``(<W,L,D*> -> <update=V,weight=float32,local=L,loss=float32,num_examples=float32>)``, on a client."""

    @tff.tensorflow.computation(model.global_type, model.local_type, model.data_type)
    @tf.function
    def train(initial: Any, initial_local: Any, dataset: Any) -> Any:
        with tf.init_scope():
            variables = model.make()
            loss_of = model.make_loss()
        shared = _Reconstruction.get_global_variables(variables)
        local = _Reconstruction.get_local_variables(variables)
        _assign(shared, initial)
        _assign(local, initial_local)

        def step(batch: Any, trained: Any, optimizer: Any, optimizer_state: Any) -> Any:
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

        # Over iterators: a loop over the dataset itself becomes a reduction, ten times more expensive.
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


def _build_initialize_client(
    model: _Model, parts: EncodedAggregation, broadcast: EncodedBroadcast | None
) -> Any:
    @tff.tensorflow.computation
    def initialize_client() -> Any:
        state = collections.OrderedDict(local=model.initial_local(), encoder=parts.init_client())
        if broadcast is not None:
            state["broadcast"] = broadcast.init_client()
        return state

    return initialize_client


def _build_next(
    model: _Model,
    parts: EncodedAggregation,
    distributor: Any,
    train: Any,
    finalizer: Any,
    state_type: Any,
    client_state_type: Any,
    *,
    catches_up: bool,
) -> Any:
    @tff.tensorflow.computation(
        model.global_type, model.data_type, client_state_type, parts.instruct.type_signature.result
    )
    def work(weights: Any, dataset: Any, client_state: Any, instructions: Any) -> Any:
        trained = train(weights, client_state["local"], dataset)
        finite = _all_finite([*trained["update"], *trained["local"].trainable])
        # A NaN in place of the weight lets the encoding drop the update and count it.
        weight = tf.where(finite, trained["weight"], np.float32(np.nan))
        encoded = parts.encode(trained["update"], weight, client_state["encoder"], instructions)
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
    def train_metrics(loss: Any, num_examples: Any) -> Any:
        loss = tf.math.divide_no_nan(loss, num_examples)
        return collections.OrderedDict(train=collections.OrderedDict(loss=loss, num_examples=num_examples))

    @tff.federated_computation(
        state_type,
        tff.FederatedType(model.data_type, tff.CLIENTS),
        tff.FederatedType(client_state_type, tff.CLIENTS),
    )
    def next_fn(state: Any, client_data: Any, client_states: Any) -> Any:
        heard = (client_states["broadcast"],) if catches_up else ()
        distributed = distributor.next(state.distributor, state.global_model_weights, *heard)
        instructions = tff.federated_map(parts.instruct, state.aggregator)
        done = tff.federated_map(
            work,
            (
                distributed.result,
                client_data,
                client_states,
                tff.federated_broadcast(instructions),
            ),
        )
        total = parts.total(done.message)
        aggregated = tff.federated_map(parts.finish, (total, state.aggregator))
        finalized = finalizer.next(state.finalizer, state.global_model_weights, aggregated.value)
        loss, num_examples = tff.federated_sum(done.loss), tff.federated_sum(done.num_examples)
        next_client_states = done.state
        if catches_up:
            next_client_states = tff.federated_zip(
                collections.OrderedDict(
                    local=done.state.local, encoder=done.state.encoder, broadcast=distributed.positions
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


def _all_finite(tensors: list[Any]) -> Any:
    floats = [x for x in tensors if x.dtype.is_floating]
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(x)) for x in floats])
