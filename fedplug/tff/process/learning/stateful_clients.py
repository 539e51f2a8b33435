"""Processes whose clients keep state, and the last step of their builders."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.registry import provenance, resolve
from fedplug.tff import structures
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.process.learning.round_output import with_model_weights

__all__ = ["StatefulClientsProcess", "assemble_process"]


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
        initialize: Any,
        next_fn: Any,
        *,
        initialize_client: Any,
        get_model_weights: Any,
        set_model_weights: Any,
        signature: dict[str, Any],
        dense_bytes: int,
        lowering: str,
        provenance: list[dict[str, str]],
        tensors: Sequence[Mapping[str, Any]] = (),
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

    def __init__(self, next_fn: Any, initialize_client: Any) -> None:
        super().__init__(
            computation_proto=tff.framework.ConcreteComputation.get_proto(next_fn),
            context_stack=tff.framework.get_context_stack(),
            annotated_type=next_fn.type_signature,
        )
        self._initialize_client = initialize_client

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 2 and not named:
            return self._without_states(*arguments)
        return super().__call__(*arguments, **named)

    @functools.cached_property
    def _without_states(self) -> Any:
        if structures.paths(self._initialize_client.type_signature.result):
            raise ConfigError(
                "clients keep state from round to round, such as what error feedback has not sent yet; train "
                "with fedplug.Trainer(process, client_data), or call next(state, client_data, client_states)"
            )

        @tff.federated_computation(*self.type_signature.parameter[:2])
        def next_fn(state: Any, client_data: Any) -> Any:
            none = tff.federated_eval(self._initialize_client, tff.CLIENTS)
            output = self(state, client_data, none)
            return tff.learning.templates.LearningProcessOutput(output["state"], output["metrics"])

        return next_fn


def assemble_process(
    name: str,
    initialize: Any,
    next_fn: Any,
    *,
    initialize_client: Any,
    encoder: ModelEncoder,
    broadcast_encoder: ModelEncoder | None = None,
    aggregator: Aggregator,
    update_type: Any,
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
    def get_model_weights(state: Any) -> Any:
        return state.global_model_weights

    @tff.tensorflow.computation(state_type, state_type.global_model_weights)
    def set_model_weights(state: Any, weights: Any) -> Any:
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
    signature = {
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
        dense_bytes=sum(spec.shape.num_elements() * spec.dtype.size for spec in encoder.specs),
        lowering=lowering,
        provenance=records,
        clients=aggregator.clients,
        most_clients=most_clients,
        tensors=[
            {"name": name, "shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for name, spec in zip(_different(encoder.specs), encoder.specs, strict=True)
        ],
    )
    resolve.notify("fedplug_process_built", process=process)
    return process


def _different(specs: Sequence[Any]) -> list[str]:
    """Returns the names of tensors. Repeated names get their positions."""
    names = [spec.name for spec in specs]
    return [name if names.count(name) == 1 else f"{name} {place}" for place, name in enumerate(names)]
