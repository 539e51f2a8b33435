"""The server's model sent to clients in the cheapest form for each: the computations.

What clients do with a model, and how a process keeps their states, is not known here.
"""

from __future__ import annotations

import collections
import functools
from typing import Any, NamedTuple

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.tff import structures
from fedplug.tff.process import tracing
from fedplug.tff.process.distribution.reference import Advance, Held, ReferenceModel

__all__ = ["EncodedBroadcast", "build_encoded_broadcast"]

_NEVER = -1


class EncodedBroadcast(NamedTuple):
    """The computations of an encoded broadcast; V is the model's type, S the server's state, M a message.

    S is ``<sent=V,changed=<int32[...],...>,round_num=int32,position=int64[T]>``: the reference model, which
    all clients of the last broadcast have; in which broadcast each of its entries became what it is; how many
    broadcasts there were; and how many bytes the messages between them took for each of the T tensors; with
    rate control also ``control=K``, see `RateControl.init`, and with memories ``memory=<...>``. C is what is
    known of a client, ``<round_num=int32,position=int64[T]>`` of the last broadcast that it heard. M is
    ``<messages=<uint8[?],...>,snapshots=<uint8[?],...>,changed=...,round_num=int32,position=int64[T]>``.

    **What a client is sent** is for each tensor the shortest of: all messages since the broadcast that it
    heard; the entries that changed since, see `fedplug.encoders.pipeline.changes`; a snapshot, which is all a
    new client can use. Either way it ends with ``sent``, bit for bit. So no client is ever sent more than a
    snapshot, and the server keeps no more than one number for each entry, whatever clients missed. Where
    tensors have a memory that is true of the memory, and the last message is sent beside it.

    What `fedplug.tff.process.distribution.reference` says of the reference model is what is promised: with an
    encoder that is a contraction its distance to the server's model stays bounded, as of EF21-P (Gruntkowska,
    Tyurin, Richtarik, "EF21-P and Friends: Improved Theoretical Communication Complexity for Distributed
    Optimization with Bidirectional Compression", ICML 2023, arXiv 2209.15218), up to the error of a snapshot.
    The server's own model is never compressed, and updates are added to it: with a memory and an unbiased
    encoder that is MCM (Philippenko, Dieuleveut, "Preserved central model for faster bidirectional
    compression in distributed settings", NeurIPS 2021, arXiv 2102.12528, algorithm 1), whose gradients are
    taken at models that are the server's in expectation.

    Attributes:
        reference: How the reference model follows the server's.
        init: ``( -> S)``
        publish: ``(<V,S> -> <message=M,state=S>)``; the clients of the round train on ``state.sent``.
        init_client: ``( -> C)``, of a client that has heard nothing.
        catch_up: ``(<C,M> -> <downlink_bytes=int64,client=C>)``: what the client has to be sent so that it
            has ``sent``, this broadcast included, and what it has heard then.
    """

    reference: ReferenceModel
    init: Any
    publish: Any
    init_client: Any
    catch_up: Any


def build_encoded_broadcast(
    value_type: Any, encoder: ModelEncoder, lowering: str, snapshot: Any = None
) -> EncodedBroadcast:
    """Traces all computations of an encoded broadcast.

    Args:
        value_type: The TFF type of the model: a tensor or a structure of tensors.
        encoder: For that type.
        lowering: ``"fused"`` or ``"reference"``.
        snapshot: See `ReferenceModel`.

    Raises:
        CapabilityError: See `ReferenceModel`.
        ConfigError: The same.
    """
    trace = functools.partial(tracing.trace, lowering)
    reference = ReferenceModel(encoder, snapshot, lowering=lowering)
    control = encoder.rate_control

    def flat(value: Any) -> list[tf.Tensor]:
        return structures.flatten(value, value_type)

    def kept(held: Held) -> dict[str, Any]:
        memory = {"memory": held.memory} if held.memory else {}
        return {"sent": structures.unflatten(held.reference, value_type), **memory}

    def init() -> Any:
        return collections.OrderedDict(
            **kept(reference.init()),
            changed=reference.init_changed(),
            round_num=tf.constant(0, tf.int32),
            position=tf.zeros([len(encoder.specs)], tf.int64),
            **({} if control is None else {"control": control.init()}),
        )

    def next_control(state: Any, step: Advance) -> dict[str, Any]:
        """By what the encoder wrote in this round; the first one is not like the others."""
        if control is None:
            return {}
        measured = state["round_num"] > 0
        found = {
            "tensor_bytes": tf.where(measured, _sizes(step.buffers), 0),
            "payloads": tf.cast(measured, tf.int32),
        }
        if control.reported:
            found |= control.report(step.inputs, step.received, step.next_states)
        return {"control": control.next(state["control"], found)}

    def publish(value: Any, state: Any) -> Any:
        tensors, round_num = flat(value), state["round_num"]
        held = Held(tuple(flat(state["sent"])), tuple(state.get("memory", ())))
        finite = [tf.reduce_all(tf.math.is_finite(x)) for x in tensors if x.dtype.is_floating]
        with ops.require(tf.reduce_all(finite), "the model to be broadcast holds a NaN or an infinity"):
            tensors = [tf.identity(x) for x in tensors]
        step = reference.advance(tensors, held, round_num, state.get("control"))
        changed = reference.next_changed(state["changed"], held, step.held, round_num)
        position = state["position"] + _sizes(step.messages)
        message = collections.OrderedDict(
            messages=step.messages,
            snapshots=step.snapshots,
            changed=changed,
            round_num=round_num,
            position=position,
        )
        next_state = collections.OrderedDict(
            **kept(step.held),
            changed=changed,
            round_num=round_num + 1,
            position=position,
            **next_control(state, step),
        )
        return collections.OrderedDict(message=message, state=next_state)

    def init_client() -> Any:
        return collections.OrderedDict(
            round_num=tf.constant(_NEVER, tf.int32), position=tf.zeros([len(encoder.specs)], tf.int64)
        )

    def catch_up(client: Any, message: Any) -> Any:
        snapshots, heard = message["snapshots"], client["round_num"]
        beside = _sizes(message["messages"]) if reference.memory_rate else tf.zeros_like(message["position"])

        def since() -> tf.Tensor:
            changes = _sizes(reference.changes(snapshots, message["changed"], heard)) + beside
            missed = tf.where(by_differences, message["position"] - client["position"], changes)
            return tf.reduce_sum(tf.minimum(changes, missed))

        size = tf.cond(heard == _NEVER, lambda: tf.reduce_sum(_sizes(snapshots) + beside), since)
        heard_now = collections.OrderedDict((key, message[key]) for key in ("round_num", "position"))
        return collections.OrderedDict(downlink_bytes=size, client=heard_now)

    by_differences = [place in reference.by_differences for place in range(len(encoder.specs))]
    server_init, client_init = trace(init), trace(init_client)
    server_publish = trace(publish, value_type, server_init.type_signature.result)
    message_type = server_publish.type_signature.result.message
    return EncodedBroadcast(
        reference=reference,
        init=server_init,
        publish=server_publish,
        init_client=client_init,
        catch_up=trace(catch_up, client_init.type_signature.result, message_type),
    )


def _sizes(buffers: Any) -> tf.Tensor:
    return tf.stack([tf.size(buffer, tf.int64) for buffer in buffers])
