"""Distributors send the server's model to the clients of a round and count the bytes."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE
from fedplug.tff import structures
from fedplug.tff.process.aggregation.encoded_aggregation import model_encoder
from fedplug.tff.process.arguments import AnyEncoder, as_broadcast_encoder
from fedplug.tff.process.distribution.broadcast import EncodedBroadcast
from fedplug.tff.process.lowering import choose_lowering

__all__ = ["build_catch_up_distributor", "build_distributor", "build_encoded_distributor"]


def build_distributor(value_type: Any, *, secure_sum: bool = False) -> Any:
    """Returns a `tff.learning.templates.DistributionProcess` that sends values uncompressed.

    Its measurement is ``<downlink_bytes=int64>``, the sum over all clients of the round, which is a secure
    sum if ``secure_sum`` is true.

    Raises:
        ConfigError: The type has members that are not tensors.
    """
    dense = np.int64(sum(_bytes(t) for t in structures.tensor_types(value_type)))

    @tff.tensorflow.computation
    def size() -> Any:
        return tf.constant(dense)

    def of_all_clients(size: Any) -> Any:
        if not secure_sum:
            return _of_all_clients(size)
        return tff.federated_secure_sum_bitwidth(tff.federated_broadcast(size), int(dense).bit_length())

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, tff.FederatedType(value_type, tff.SERVER))
    def next_fn(state: Any, value: Any) -> Any:
        measurements = tff.federated_zip(
            collections.OrderedDict(downlink_bytes=of_all_clients(tff.federated_eval(size, tff.SERVER)))
        )
        return tff.templates.MeasuredProcessOutput(state, tff.federated_broadcast(value), measurements)

    return tff.learning.templates.DistributionProcess(initialize, next_fn)


def build_encoded_distributor(
    value_type: Any,
    encoder: AnyEncoder,
    *,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
) -> Any:
    """Returns a `tff.learning.templates.DistributionProcess` that sends an encoded model.

    It is for TFF's own processes: ``model_distributor=`` of `tff.learning.algorithms.build_weighted_fed_avg`.
    Their clients keep no state, so the measurement ``<downlink_bytes=int64>`` assumes that the clients of the
    round received all earlier broadcasts. For clients that missed rounds, see ``broadcast_encoder`` of
    `fedplug.tff.process.build_weighted_fed_avg`.

    Args:
        value_type: The TFF type of the distributed value, such as the model's weights.
        encoder: An encoder that sends every entry, an expression or rules. See `EncodedBroadcast`.
        lowering: See `build_weighted_fed_avg`.
        min_size: Tensors with fewer elements are sent uncompressed.

    Raises:
        CapabilityError: The encoder leaves entries out, or its error is too large for a model.
        ConfigError: The expression is not valid or has rate control, or the type has something else than
            tensors of known shapes.
        LoweringError: The current runtime cannot run the requested ``lowering``.
    """
    model = model_encoder(as_broadcast_encoder(encoder), value_type, min_size)
    broadcast = EncodedBroadcast(value_type, model, choose_lowering(lowering))
    state_type = broadcast.init.type_signature.result

    @tff.tensorflow.computation(state_type)
    def who_heard_all(state: Any) -> Any:
        return collections.OrderedDict(round_num=state["round_num"] - 1)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_eval(broadcast.init, tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, tff.FederatedType(value_type, tff.SERVER))
    def next_fn(state: Any, value: Any) -> Any:
        published = tff.federated_map(broadcast.publish, (value, state))
        received = tff.federated_broadcast(published.state.sent)
        client = tff.federated_map(who_heard_all, state)
        caught_up = tff.federated_map(broadcast.catch_up, (client, published.server_message))
        downlink_bytes = _of_all_clients(caught_up.downlink_bytes)
        measurements = tff.federated_zip(collections.OrderedDict(downlink_bytes=downlink_bytes))
        return tff.templates.MeasuredProcessOutput(published.state, received, measurements)

    return tff.learning.templates.DistributionProcess(initialize, next_fn)


def build_catch_up_distributor(broadcast: EncodedBroadcast) -> Any:
    """Returns an encoded broadcast to clients that know which round they received last.

    It is a `tff.templates.IterativeProcess` with ``initialize`` of type ``( -> S@SERVER)`` and ``next`` of
    type ``(<S@SERVER,V@SERVER,{C}@CLIENTS> -> <state=S@SERVER,result={V}@CLIENTS,
    measurements=<downlink_bytes=int64>@SERVER,clients={C}@CLIENTS>)``.
    """

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_eval(broadcast.init, tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(broadcast.init.type_signature.result.sent, tff.SERVER),
        tff.FederatedType(broadcast.init_client.type_signature.result, tff.CLIENTS),
    )
    def next_fn(state: Any, value: Any, clients: Any) -> Any:
        published = tff.federated_map(broadcast.publish, (value, state))
        server_message = tff.federated_broadcast(published.server_message)
        caught_up = tff.federated_map(broadcast.catch_up, (clients, server_message))
        # Snapshots and changed entries both end with these bits, so the server decodes only once.
        received = tff.federated_broadcast(published.state.sent)
        measurements = collections.OrderedDict(downlink_bytes=tff.federated_sum(caught_up.downlink_bytes))
        return collections.OrderedDict(
            state=published.state,
            result=received,
            measurements=tff.federated_zip(measurements),
            clients=caught_up.client,
        )

    return tff.templates.IterativeProcess(initialize, next_fn, next_is_multi_arg=True)


def _of_all_clients(size: Any) -> Any:
    """Returns the size times the number of clients of the round."""
    return tff.federated_sum(tff.federated_broadcast(size))


def _bytes(tensor_type: Any) -> int:
    return int(np.prod(tensor_type.shape, dtype=np.int64)) * np.dtype(tensor_type.dtype).itemsize
