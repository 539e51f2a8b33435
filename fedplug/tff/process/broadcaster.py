"""Sends the server's model to the clients of a round, uncompressed or encoded, and counts the bytes.

The TFF computations of an encoded broadcast, the distribution processes, and the choice between them.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE, ModelEncoder
from fedplug.encoders.model.trials import check_broadcast_encoder
from fedplug.encoders.pipeline.changes import change_coder
from fedplug.errors import ConfigError
from fedplug.ops.lowering import use_lowering
from fedplug.tff import structures
from fedplug.tff.process import tracing
from fedplug.tff.process.aggregation.encoded_aggregation import model_encoder
from fedplug.tff.process.arguments import AnyEncoder, as_broadcast_encoder
from fedplug.tff.process.tracing import choose_lowering
from fedplug.tff.structures import Structure

__all__ = ["Downlink", "GraphBroadcaster", "build_distributor", "build_downlink", "build_encoded_distributor"]

_NEVER = -1
_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


class GraphBroadcaster:
    """Sends each client the shorter of a snapshot and the entries that changed since its last round.

    A snapshot is the encoded model, one container per tensor. Decoding it gives the reference model, on which
    the clients of the round train. Both forms end with the same bits of the reference model. So a client
    never receives more than a snapshot, and the server keeps one round number per entry, whatever clients
    missed.

    The server's own model is never compressed, and updates are added to it. So the error of a snapshot does
    not accumulate: the next snapshot encodes the exact model again. This is the preserved central model of
    Philippenko and Dieuleveut, "Preserved central model for faster bidirectional compression in distributed
    settings", NeurIPS 2021 (arXiv 2102.12528).

    The types below: V is the model, S the server's state, C the client's state, N the server message.
    S is ``<sent=V,changed=<int32[...],...>,round_num=int32>``: the reference model, the round in which each
    of its entries last changed, and the number of broadcasts. C is ``<round_num=int32>``, the last broadcast
    that the client received. N is ``<snapshots=<uint8[?],...>,changed=<int32[...],...>,round_num=int32>``.

    Attributes:
        encoder: The encoder of the model.
        change_coders: The coder of changed entries of each tensor, or None.
        init: ``( -> S)``
        publish: ``(<V,S> -> <server_message=N,state=S>)``; the clients of the round train on ``state.sent``.
        init_client: ``( -> C)``, the state of a client that has received nothing.
        catch_up: ``(<C,N> -> <downlink_bytes=int64,client=C>)``: the bytes sent to a client, and its next
            state.
    """

    def __init__(self, value_type: tff.Type, encoder: ModelEncoder, lowering: str) -> None:
        """Traces the computations.

        Args:
            value_type: The TFF type of the model: a tensor or a structure of tensors.
            encoder: The encoder for that type.
            lowering: ``"fused"`` or ``"reference"``.

        Raises:
            CapabilityError: The encoder leaves entries out, or its error is too large for a model.
            ConfigError: The encoder has rate control.
        """
        with use_lowering(lowering):
            check_broadcast_encoder(encoder)
        self.encoder = encoder
        self.change_coders = tuple(map(change_coder, encoder.encoders, encoder.specs))
        self._value_type = value_type
        trace = functools.partial(tracing.trace, lowering)
        self.init = trace(self._init)
        self.publish = trace(self._publish, value_type, self.init.type_signature.result)
        self.init_client = trace(self._init_client)
        self.catch_up = trace(
            self._catch_up,
            self.init_client.type_signature.result,
            self.publish.type_signature.result.server_message,
        )

    def changes(
        self, snapshots: Sequence[tf.Tensor], changed: Sequence[tf.Tensor], heard: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Returns for each tensor the changed entries or the snapshot, whichever is shorter.

        Args:
            snapshots: The snapshots of this round.
            changed: The round in which each entry last changed, for the tensors with a change coder.
            heard: The last round that the client received, an int32 scalar.
        """
        rounds = iter(changed)
        return tuple(
            buffer if coder is None else _shorter(buffer, coder.encode(buffer, next(rounds) > heard))
            for buffer, coder in zip(snapshots, self.change_coders, strict=True)
        )

    def _init(self) -> Structure:
        specs = self.encoder.specs
        return collections.OrderedDict(
            sent=self._model([tf.zeros(spec.shape, spec.dtype) for spec in specs]),
            changed=tuple(tf.fill(spec.shape, _NEVER) for spec in self._with_coder(specs)),
            round_num=tf.constant(0, tf.int32),
        )

    def _publish(self, value: Structure, state: Structure) -> Structure:
        tensors, round_num = self._flat(value), state["round_num"]
        finite = [tf.reduce_all(tf.math.is_finite(x)) for x in tensors if x.dtype.is_floating]
        with ops.require(tf.reduce_all(finite), "the model to be broadcast holds a NaN or an infinity"):
            tensors = [tf.identity(x) for x in tensors]
        snapshots, _ = self.encoder.encode(tensors, self.encoder.init_state(), round_num)
        sent = self.encoder.decode(snapshots)
        changed = self._next_changed(state["changed"], self._flat(state["sent"]), sent, round_num)
        server_message = collections.OrderedDict(snapshots=snapshots, changed=changed, round_num=round_num)
        next_state = collections.OrderedDict(sent=self._model(sent), changed=changed, round_num=round_num + 1)
        return collections.OrderedDict(server_message=server_message, state=next_state)

    def _next_changed(
        self,
        changed: Sequence[tf.Tensor],
        old: Sequence[tf.Tensor],
        new: Sequence[tf.Tensor],
        round_num: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """Compares bits, so that a change of a zero's sign counts."""
        compared = zip(changed, self._with_coder(old), self._with_coder(new), strict=True)
        return tuple(tf.where(_bits(w) == _bits(u), rounds, round_num) for rounds, w, u in compared)

    def _init_client(self) -> Structure:
        return collections.OrderedDict(round_num=tf.constant(_NEVER, tf.int32))

    def _catch_up(self, client: Structure, server_message: Structure) -> Structure:
        snapshots, heard = server_message["snapshots"], client["round_num"]
        size = tf.cond(
            heard == _NEVER,
            lambda: _total_bytes(snapshots),
            lambda: _total_bytes(self.changes(snapshots, server_message["changed"], heard)),
        )
        received = collections.OrderedDict(round_num=server_message["round_num"])
        return collections.OrderedDict(downlink_bytes=size, client=received)

    def _with_coder(self, each: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return [one for one, coder in zip(each, self.change_coders, strict=True) if coder is not None]

    def _flat(self, value: Structure) -> list[tf.Tensor]:
        return structures.flatten(value, self._value_type)

    def _model(self, tensors: Sequence[tf.Tensor]) -> Structure:
        return structures.unflatten(tensors, self._value_type)


def _total_bytes(buffers: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.size(buffer, tf.int64) for buffer in buffers])


def _shorter(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(other) < tf.size(one), lambda: other, lambda: one)


def _bits(x: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(x, _BITS[x.dtype.size])


def build_distributor(
    value_type: tff.Type, *, secure_sum: bool = False
) -> tff.learning.templates.DistributionProcess:
    """Returns a `tff.learning.templates.DistributionProcess` that sends values uncompressed.

    Its measurement is ``<downlink_bytes=int64>``, the sum over all clients of the round, which is a secure
    sum if ``secure_sum`` is true.

    Raises:
        ConfigError: The type has members that are not tensors.
    """
    dense = np.int64(sum(_bytes(t) for t in structures.tensor_types(value_type)))

    @tff.tensorflow.computation
    def size() -> Structure:
        return tf.constant(dense)

    def of_all_clients(size: Structure) -> Structure:
        if not secure_sum:
            return _of_all_clients(size)
        return tff.federated_secure_sum_bitwidth(tff.federated_broadcast(size), int(dense).bit_length())

    @tff.federated_computation
    def initialize() -> Structure:
        return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, tff.FederatedType(value_type, tff.SERVER))
    def next_fn(state: Structure, value: Structure) -> Structure:
        measurements = tff.federated_zip(
            collections.OrderedDict(downlink_bytes=of_all_clients(tff.federated_eval(size, tff.SERVER)))
        )
        return tff.templates.MeasuredProcessOutput(state, tff.federated_broadcast(value), measurements)

    return tff.learning.templates.DistributionProcess(initialize, next_fn)


def build_encoded_distributor(
    value_type: tff.Type,
    encoder: AnyEncoder,
    *,
    lowering: str = "auto",
    min_size: int = DEFAULT_MIN_SIZE,
) -> tff.learning.templates.DistributionProcess:
    """Returns a `tff.learning.templates.DistributionProcess` that sends an encoded model.

    It is for TFF's own processes: ``model_distributor=`` of `tff.learning.algorithms.build_weighted_fed_avg`.
    Their clients keep no state, so the measurement ``<downlink_bytes=int64>`` assumes that the clients of the
    round received all earlier broadcasts. For clients that missed rounds, see ``broadcast_encoder`` of
    `fedplug.tff.process.build_weighted_fed_avg`.

    Args:
        value_type: The TFF type of the distributed value, such as the model's weights.
        encoder: An encoder that sends every entry, an expression or rules. See `GraphBroadcaster`.
        lowering: See `build_weighted_fed_avg`.
        min_size: Tensors with fewer elements are sent uncompressed.

    Raises:
        CapabilityError: The encoder leaves entries out, or its error is too large for a model.
        ConfigError: The expression is not valid or has rate control, or the type has something else than
            tensors of known shapes.
        LoweringError: The current runtime cannot run the requested ``lowering``.
    """
    model = model_encoder(as_broadcast_encoder(encoder), value_type, min_size)
    broadcast = GraphBroadcaster(value_type, model, choose_lowering(lowering))
    state_type = broadcast.init.type_signature.result

    @tff.tensorflow.computation(state_type)
    def who_heard_all(state: Structure) -> Structure:
        return collections.OrderedDict(round_num=state["round_num"] - 1)

    @tff.federated_computation
    def initialize() -> Structure:
        return tff.federated_eval(broadcast.init, tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, tff.FederatedType(value_type, tff.SERVER))
    def next_fn(state: Structure, value: Structure) -> Structure:
        published = tff.federated_map(broadcast.publish, (value, state))
        received = tff.federated_broadcast(published.state.sent)
        client = tff.federated_map(who_heard_all, state)
        caught_up = tff.federated_map(broadcast.catch_up, (client, published.server_message))
        downlink_bytes = _of_all_clients(caught_up.downlink_bytes)
        measurements = tff.federated_zip(collections.OrderedDict(downlink_bytes=downlink_bytes))
        return tff.templates.MeasuredProcessOutput(published.state, received, measurements)

    return tff.learning.templates.DistributionProcess(initialize, next_fn)


def build_catch_up_distributor(broadcast: GraphBroadcaster) -> tff.templates.IterativeProcess:
    """Returns an encoded broadcast to clients that know which round they received last.

    It is a `tff.templates.IterativeProcess` with ``initialize`` of type ``( -> S@SERVER)`` and ``next`` of
    type ``(<S@SERVER,V@SERVER,{C}@CLIENTS> -> <state=S@SERVER,result={V}@CLIENTS,
    measurements=<downlink_bytes=int64>@SERVER,clients={C}@CLIENTS>)``.
    """

    @tff.federated_computation
    def initialize() -> Structure:
        return tff.federated_eval(broadcast.init, tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(broadcast.init.type_signature.result.sent, tff.SERVER),
        tff.FederatedType(broadcast.init_client.type_signature.result, tff.CLIENTS),
    )
    def next_fn(state: Structure, value: Structure, clients: Structure) -> Structure:
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


def _of_all_clients(size: Structure) -> Structure:
    """Returns the size times the number of clients of the round."""
    return tff.federated_sum(tff.federated_broadcast(size))


def _bytes(tensor_type: tff.Type) -> int:
    return int(np.prod(tensor_type.shape, dtype=np.int64)) * np.dtype(tensor_type.dtype).itemsize


@dataclass(frozen=True)
class Downlink:
    """The distributor of a process and, for an encoded model, the broadcast that each client received last.

    Attributes:
        distributor: A process of `fedplug.tff.process.broadcaster`.
        broadcast: The encoded broadcast. None if the model is sent uncompressed and clients keep no state.
    """

    distributor: tff.templates.IterativeProcess
    broadcast: GraphBroadcaster | None = None

    @property
    def encoder(self) -> ModelEncoder | None:
        """The encoder of the model. None if the model is sent uncompressed."""
        return self.broadcast.encoder if self.broadcast else None

    def init_client(self) -> dict[str, Structure]:
        """The initial fields of a client's state for the downlink: ``broadcast=C``, or none."""
        return {"broadcast": self.broadcast.init_client()} if self.broadcast else {}

    def send(self, state: Structure, client_states: Structure) -> Structure:
        """Sends the server's model, in the body of a `tff.federated_computation`.

        Args:
            state: ``S@SERVER``, a `tff.learning.templates.LearningAlgorithmState`.
            client_states: ``{...}@CLIENTS``; with an encoder, they have ``broadcast``, see `init_client`.

        Returns:
            ``<state=...,result={W}@CLIENTS,measurements=...>``
        """
        heard = (client_states["broadcast"],) if self.broadcast else ()
        return self.distributor.next(state.distributor, state.global_model_weights, *heard)

    def client_state(self, sent: Structure) -> dict[str, Structure]:
        """The next values of the fields that `init_client` begins with, from the result of `send`."""
        return {"broadcast": sent.clients} if self.broadcast else {}


def build_downlink(
    weights_type: tff.Type,
    encoder: AnyEncoder | None,
    names: Structure,
    min_size: int,
    lowering: str,
    *,
    secure_sum: bool = False,
) -> Downlink:
    """Builds the downlink for an encoder, or for None.

    Args:
        weights_type: A `tff.learning.models.ModelWeights` as TFF's type.
        encoder: See ``broadcast_encoder`` of `fedplug.tff.process.build_weighted_fed_avg`.
        names: The names of the weights, see `fedplug.tff.process.variable_names`.
        min_size: Tensors with fewer elements are sent uncompressed.
        lowering: ``"fused"`` or ``"reference"``.
        secure_sum: Whether only secure sums may leave the clients, which needs an uncompressed model.

    Raises:
        CapabilityError: See `fedplug.tff.process.broadcaster.GraphBroadcaster`.
        ConfigError: The expression is not valid, has rate control, or is given with ``secure_sum``.
    """
    if encoder is None:
        return Downlink(build_distributor(weights_type, secure_sum=secure_sum))
    if secure_sum:
        raise ConfigError(
            "broadcast_encoder does not go with secure_sum: the bytes that a client gets tell when it took "
            "part last; leave broadcast_encoder out"
        )
    all_names = [*names.trainable, *names.non_trainable]
    model = model_encoder(as_broadcast_encoder(encoder), weights_type, min_size, all_names)
    broadcast = GraphBroadcaster(weights_type, model, lowering)
    return Downlink(build_catch_up_distributor(broadcast), broadcast)
