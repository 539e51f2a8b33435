"""Processes whose clients keep state, and what every builder of one ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.registry import provenance, resolve
from fedplug.tff.aggregators.base import Aggregator
from fedplug.tff.process.learning.round_output import with_model_weights

__all__ = ["StatefulClientsProcess", "assemble_process"]


class StatefulClientsProcess(tff.templates.IterativeProcess):
    """An iterative process that returns every client's state to its caller.

    Attributes:
        initialize: ``( -> S@SERVER)``, S a `tff.learning.templates.LearningAlgorithmState`.
        next: ``(<S@SERVER, {D*}@CLIENTS, {C}@CLIENTS> -> <state=S@SERVER, metrics=M@SERVER,
            client_states={C}@CLIENTS>)``; client states are in the order of the clients.
        initialize_client: ``( -> C)``, the state of a client that takes part for the first time.
        get_model_weights: ``(S -> W)``, W a `tff.learning.models.ModelWeights`.
        set_model_weights: ``(<S,W> -> S)``, the same state with other weights, for instance trained ones to
            begin with. Client states, and what was broadcast, stay as they were.
        signature: What a store compares before it returns its states to this process; JSON values only.
        dense_bytes: Of one uncompressed model update, without any header.
        tensors: Of an update, in order: ``{"name": str, "shape": [int], "dtype": str}`` each.
        lowering: ``"fused"`` or ``"reference"``.
        clients: How many there must be in all, where the aggregator depends on it; None: any number.
        provenance: Its components with the distribution and version each came from, see
            `fedplug.registry.provenance`.
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
    ) -> None:
        super().__init__(initialize, next_fn, next_is_multi_arg=True)
        self.initialize_client = initialize_client
        self.get_model_weights = get_model_weights
        self.set_model_weights = set_model_weights
        self.signature = signature
        self.dense_bytes = dense_bytes
        self.tensors = [dict(tensor) for tensor in tensors]
        self.lowering = lowering
        self.clients = clients
        self.provenance = provenance


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
) -> StatefulClientsProcess:
    """What every builder ends with: the process, and the signature that stores compare.

    Args:
        name: Of the builder, for the signature.
        initialize: ``( -> S@SERVER)``, S with a field ``global_model_weights``.
        next_fn: As `StatefulClientsProcess.next`.
        initialize_client: ``( -> C)``.
        encoder: Of the model's update.
        broadcast_encoder: The encoder of the server's model; None if it is sent uncompressed.
        aggregator: Of the updates.
        update_type: The TFF type of an update.
        lowering: ``"fused"`` or ``"reference"``.
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
        tensors=[
            {"name": name, "shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for name, spec in zip(_different(encoder.specs), encoder.specs, strict=True)
        ],
    )
    resolve.notify("fedplug_process_built", process=process)
    return process


def _different(specs: Sequence[Any]) -> list[str]:
    """The names of tensors; those that several have, with their places."""
    names = [spec.name for spec in specs]
    return [name if names.count(name) == 1 else f"{name} {place}" for place, name in enumerate(names)]
