"""Processes whose clients keep state, the last step of their builders, and constraints on their weights.

The server's state is TFF's, so that TFF's own tools can read it.
"""

from __future__ import annotations

import collections
import copy
import functools
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.registry import provenance, resolve
from fedplug.tff import structures
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.structures import Structure

__all__ = [
    "StatefulClientsProcess",
    "assemble_process",
    "build_initialize",
    "constrain_weights",
    "round_output",
    "with_model_weights",
]

Constraint = Callable[[tf.Tensor], tf.Tensor]


def build_initialize(
    *,
    initial_weights: tff.Computation,
    distributor: tff.templates.IterativeProcess,
    init_aggregator: tff.Computation,
    finalizer: tff.learning.templates.FinalizerProcess,
    client_work: tff.learning.templates.ClientWorkProcess | None = None,
) -> tff.Computation:
    """``( -> S@SERVER)``, S a `tff.learning.templates.LearningAlgorithmState`.

    Args:
        initial_weights: ``( -> W)``
        distributor: The process that sends the model.
        init_aggregator: ``( -> A)``
        finalizer: The process that applies the update.
        client_work: The process that trains. None if it has no state.
    """

    @tff.federated_computation
    def initialize() -> Structure:
        state = tff.learning.templates.LearningAlgorithmState(
            global_model_weights=tff.federated_eval(initial_weights, tff.SERVER),
            distributor=distributor.initialize(),
            client_work=client_work.initialize() if client_work else tff.federated_value((), tff.SERVER),
            aggregator=tff.federated_eval(init_aggregator, tff.SERVER),
            finalizer=finalizer.initialize(),
        )
        return tff.federated_zip(state)

    return initialize


def round_output(
    *,
    distributor: Structure,
    client_work: Structure,
    aggregator: Structure,
    finalizer: Structure,
    client_states: Structure,
) -> Structure:
    """Returns the output of a round, for the end of a `tff.federated_computation`.

    Args:
        distributor: The distributor's output, ``<state=...,measurements=...>@SERVER`` at least.
        client_work: The output of the client work, with the same fields.
        aggregator: The aggregator's output, with the same fields.
        finalizer: The finalizer's output. Its ``result`` is the next model.
        client_states: ``{C}@CLIENTS``

    Returns:
        ``<state=S@SERVER,metrics=M@SERVER,client_states={C}@CLIENTS>``
    """
    outputs = collections.OrderedDict(
        distributor=distributor, client_work=client_work, aggregator=aggregator, finalizer=finalizer
    )
    state = tff.learning.templates.LearningAlgorithmState(
        global_model_weights=finalizer.result, **{name: output.state for name, output in outputs.items()}
    )
    metrics = collections.OrderedDict((name, output.measurements) for name, output in outputs.items())
    return collections.OrderedDict(
        state=tff.federated_zip(state), metrics=tff.federated_zip(metrics), client_states=client_states
    )


def with_model_weights(state: Structure, weights: Structure) -> Structure:
    """Returns the state with other weights, for the body of a `tff.tensorflow.computation`."""
    return tff.learning.templates.LearningAlgorithmState(
        global_model_weights=weights,
        distributor=state.distributor,
        client_work=state.client_work,
        aggregator=state.aggregator,
        finalizer=state.finalizer,
    )


class StatefulClientsProcess(tff.templates.IterativeProcess):
    """An iterative process that returns every client's state to its caller.

    Attributes:
        initialize: ``( -> S@SERVER)``, S a `tff.learning.templates.LearningAlgorithmState`.
        next: ``(<S@SERVER, {D*}@CLIENTS, {C}@CLIENTS> -> <state=S@SERVER, metrics=M@SERVER,
            client_states={C}@CLIENTS>)``. Client states are in the order of the clients. Called with two
            arguments, as in TFF, it returns a `tff.learning.templates.LearningProcessOutput`. Then clients
            must have no state.
        initialize_client: ``( -> C)``, the state of a client that takes part for the first time.
        get_model_weights: ``(S -> W)``, W a `tff.learning.models.ModelWeights`.
        set_model_weights: ``(<S,W> -> S)``, the state with other weights, for instance pretrained ones.
            Client states and the reference model do not change.
        signature: JSON values that a store compares before it returns its states to this process.
        dense_bytes: Bytes of one uncompressed model update, without headers.
        tensors: The tensors of an update, in order: ``{"name": str, "shape": [int], "dtype": str}`` each.
        lowering: ``"fused"`` or ``"reference"``.
        clients: The number of all clients, if the aggregator depends on it. None: any number.
        most_clients: The most clients of a round, whose sum could else wrap. None: any number.
        provenance: The components with their distributions and versions, see `fedplug.registry.provenance`.
    """

    def __init__(
        self,
        initialize: tff.Computation,
        next_fn: tff.Computation,
        *,
        initialize_client: tff.Computation,
        get_model_weights: tff.Computation,
        set_model_weights: tff.Computation,
        signature: dict[str, object],
        dense_bytes: int,
        lowering: str,
        provenance: list[dict[str, str]],
        tensors: Sequence[Mapping[str, object]] = (),
        clients: int | None = None,
        most_clients: int | None = None,
    ) -> None:
        super().__init__(initialize, _Next(next_fn, initialize_client), next_is_multi_arg=True)
        self.initialize_client = initialize_client
        self.get_model_weights = get_model_weights
        self.set_model_weights = set_model_weights
        self.signature = signature
        self.dense_bytes = dense_bytes
        self.tensors = [dict(tensor) for tensor in tensors]
        self.lowering = lowering
        self.clients = clients
        self.most_clients = most_clients
        self.provenance = provenance


class _Next(tff.framework.ConcreteComputation):
    """The computation of a round, in which states may be left out if clients have none."""

    def __init__(self, next_fn: tff.Computation, initialize_client: tff.Computation) -> None:
        super().__init__(
            computation_proto=tff.framework.ConcreteComputation.get_proto(next_fn),
            context_stack=tff.framework.get_context_stack(),
            annotated_type=next_fn.type_signature,
        )
        self._initialize_client = initialize_client

    def __call__(self, *arguments: Structure, **named: Structure) -> Structure:
        if len(arguments) == 2 and not named:
            return self._without_states(*arguments)
        return super().__call__(*arguments, **named)

    @functools.cached_property
    def _without_states(self) -> tff.Computation:
        if structures.paths(self._initialize_client.type_signature.result):
            raise ConfigError(
                "clients keep state from round to round, such as what error feedback has not sent yet; train "
                "with fedplug.Trainer(process, client_data), or call next(state, client_data, client_states)"
            )

        @tff.federated_computation(*self.type_signature.parameter[:2])
        def next_fn(state: Structure, client_data: Structure) -> Structure:
            none = tff.federated_eval(self._initialize_client, tff.CLIENTS)
            output = self(state, client_data, none)
            return tff.learning.templates.LearningProcessOutput(output["state"], output["metrics"])

        return next_fn


def assemble_process(
    name: str,
    initialize: tff.Computation,
    next_fn: tff.Computation,
    *,
    initialize_client: tff.Computation,
    encoder: ModelEncoder,
    broadcast_encoder: ModelEncoder | None = None,
    aggregator: Aggregator,
    update_type: tff.Type,
    lowering: str,
    most_clients: int | None = None,
) -> StatefulClientsProcess:
    """Builds the process and the signature that stores compare. The last step of every builder.

    Args:
        name: The name of the builder, for the signature.
        initialize: ``( -> S@SERVER)``, S with a field ``global_model_weights``.
        next_fn: The computation `StatefulClientsProcess.next`.
        initialize_client: ``( -> C)``.
        encoder: The encoder of updates.
        broadcast_encoder: The encoder of the server's model. None if it is sent uncompressed.
        aggregator: The aggregator of updates.
        update_type: The TFF type of an update.
        lowering: ``"fused"`` or ``"reference"``.
        most_clients: See `StatefulClientsProcess`.
    """
    state_type = initialize.type_signature.result.member

    @tff.tensorflow.computation(state_type)
    def get_model_weights(state: Structure) -> Structure:
        return state.global_model_weights

    @tff.tensorflow.computation(state_type, state_type.global_model_weights)
    def set_model_weights(state: Structure, weights: Structure) -> Structure:
        return with_model_weights(state, weights)

    encoders = [encoder] if broadcast_encoder is None else [encoder, broadcast_encoder]
    records = [
        *(
            record
            for each in encoders
            for record in provenance.records("encoder", each.encoder.name, each.get_config())
        ),
        *provenance.records("aggregator", aggregator.name, aggregator.get_config()),
    ]
    signature: dict[str, object] = {
        "process": name,
        "encoder": encoder.get_config(),
        "broadcast_encoder": broadcast_encoder and broadcast_encoder.get_config(),
        "aggregator": {"name": aggregator.name, "config": aggregator.get_config()},
        "update": str(update_type),
        "server_state": str(state_type),
        "client_state": str(initialize_client.type_signature.result),
        "distributions": provenance.distributions(records),
    }
    process = StatefulClientsProcess(
        initialize,
        next_fn,
        initialize_client=initialize_client,
        get_model_weights=get_model_weights,
        set_model_weights=set_model_weights,
        signature=signature,
        dense_bytes=sum(ops.num_elements(spec) * ops.itemsize(spec.dtype) for spec in encoder.specs),
        lowering=lowering,
        provenance=records,
        clients=aggregator.clients,
        most_clients=most_clients,
        tensors=[
            {"name": name, "shape": list(spec.shape), "dtype": spec.dtype.name}
            for name, spec in zip(_different(encoder.specs), encoder.specs, strict=True)
        ],
    )
    resolve.notify("fedplug_process_built", process=process)
    return process


def _different(specs: Sequence[Structure]) -> list[str]:
    """Returns the names of tensors. Repeated names get their positions."""
    names = [spec.name for spec in specs]
    return [name if names.count(name) == 1 else f"{name} {place}" for place, name in enumerate(names)]


def constrain_weights(
    process: StatefulClientsProcess, constraints: Sequence[Constraint | None]
) -> StatefulClientsProcess:
    """Returns a process that projects the server's trainable weights at the start and after every round.

    The projection is part of the computations ``initialize`` and ``next``, which are traced once.

    Args:
        process: A process of a builder of `fedplug.tff.process`.
        constraints: One per trainable tensor, in their order: a `tf.keras.constraints.Constraint`, any other
            function from a tensor to one of the same shape and dtype, or None for no constraint.

    Returns:
        A process with the same types and the same signature, so a store can go on.

    Raises:
        ConfigError: The numbers of constraints and tensors differ, or one changes a shape or dtype.
    """
    state_type = process.initialize.type_signature.result.member
    tensors = list(state_type.global_model_weights.trainable)
    if len(constraints) != len(tensors):
        raise ConfigError(
            f"there are {len(constraints)} constraints for {len(tensors)} trainable tensors; give one for "
            "each, None where there is nothing to constrain"
        )

    @tff.tensorflow.computation(state_type)
    def project(state: Structure) -> Structure:
        weights = state.global_model_weights
        trainable = tuple(
            tensor if constraint is None else _project(constraint, tensor, position)
            for position, (constraint, tensor) in enumerate(zip(constraints, weights.trainable, strict=True))
        )
        constrained = tff.learning.models.ModelWeights(trainable, weights.non_trainable)
        return with_model_weights(state, constrained)

    @tff.federated_computation
    def initialize() -> Structure:
        return tff.federated_map(project, process.initialize())

    @tff.federated_computation(*process.next.type_signature.parameter)
    def next_fn(state: Structure, client_data: Structure, client_states: Structure) -> Structure:
        output = process.next(state, client_data, client_states)
        return collections.OrderedDict(
            state=tff.federated_map(project, output["state"]),
            metrics=output["metrics"],
            client_states=output["client_states"],
        )

    constrained = copy.copy(process)
    tff.templates.IterativeProcess.__init__(
        constrained, initialize, _Next(next_fn, process.initialize_client), next_is_multi_arg=True
    )
    return constrained


def _project(constraint: Constraint, tensor: tf.Tensor, position: int) -> tf.Tensor:
    projected = tf.convert_to_tensor(constraint(tensor))
    if projected.shape != tensor.shape or projected.dtype != tensor.dtype:
        raise ConfigError(
            f"constraint {position} makes {projected.dtype.name} {projected.shape} of "
            f"{tensor.dtype.name} {tensor.shape}; it must keep shape and dtype"
        )
    return projected
