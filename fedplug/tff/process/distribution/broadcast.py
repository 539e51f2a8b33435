"""The TFF computations of an encoded broadcast, whatever clients do with the model."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import fedplug.ops as ops
from fedplug.encoders.model.closeness import check_broadcast_encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.pipeline.changes import change_coder
from fedplug.ops.lowering import use_lowering
from fedplug.tff import structures
from fedplug.tff.process import tracing

__all__ = ["EncodedBroadcast"]

_NEVER = -1
_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


class EncodedBroadcast:
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

    def __init__(self, value_type: Any, encoder: ModelEncoder, lowering: str) -> None:
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

    def _init(self) -> Any:
        specs = self.encoder.specs
        return collections.OrderedDict(
            sent=self._model([tf.zeros(spec.shape, spec.dtype) for spec in specs]),
            changed=tuple(tf.fill(spec.shape, _NEVER) for spec in self._with_coder(specs)),
            round_num=tf.constant(0, tf.int32),
        )

    def _publish(self, value: Any, state: Any) -> Any:
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

    def _init_client(self) -> Any:
        return collections.OrderedDict(round_num=tf.constant(_NEVER, tf.int32))

    def _catch_up(self, client: Any, server_message: Any) -> Any:
        snapshots, heard = server_message["snapshots"], client["round_num"]
        size = tf.cond(
            heard == _NEVER,
            lambda: _total_bytes(snapshots),
            lambda: _total_bytes(self.changes(snapshots, server_message["changed"], heard)),
        )
        received = collections.OrderedDict(round_num=server_message["round_num"])
        return collections.OrderedDict(downlink_bytes=size, client=received)

    def _with_coder(self, each: Sequence[Any]) -> list[Any]:
        return [one for one, coder in zip(each, self.change_coders, strict=True) if coder is not None]

    def _flat(self, value: Any) -> list[tf.Tensor]:
        return structures.flatten(value, self._value_type)

    def _model(self, tensors: Sequence[tf.Tensor]) -> Any:
        return structures.unflatten(tensors, self._value_type)


def _total_bytes(buffers: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.size(buffer, tf.int64) for buffer in buffers])


def _shorter(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(other) < tf.size(one), lambda: other, lambda: one)


def _bits(x: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(x, _BITS[x.dtype.size])
