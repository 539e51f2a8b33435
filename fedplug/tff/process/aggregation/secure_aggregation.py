"""A secure sum of integers as TFF computations: the steps of clients and of the server."""

from __future__ import annotations

import collections
import functools
import math

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.secure.rounds import Rounds
from fedplug.tff import structures
from fedplug.tff.process import tracing
from fedplug.tff.structures import Structure

__all__ = ["SecureAggregation"]


class SecureAggregation:
    """Adds clients' updates as integers of a ring, by `tff.federated_secure_sum_bitwidth`.

    It has the computations of `EncodedAggregation`, with these types: the client's message M is the vector
    ``int32[length]`` of `fedplug.secure.Rounds`, whose numbers are below 2^bits. Nothing else leaves a
    client but a one that counts it. A is ``<vectors=int32[length],clients=int32>``, the sums of both. C is
    ``<residual=float32[n]>``. The measurements are
    ``<uplink_bytes=int64,clients=int32,payloads=int32,nonfinite_updates=int32,clipped=int32,largest=float32>``.
    ``uplink_bytes`` is ``bits / 8`` bytes for each integer of all clients' vectors. A client without a usable
    update sends zeros, which change no sum but the number of non-finite updates. They take the same bytes.
    """

    def __init__(self, value_type: tff.Type, encoder: SharedK, lowering: str) -> None:
        """Traces all computations.

        Args:
            value_type: The TFF type of an update: a tensor or a structure of tensors of floats.
            encoder: The encoder of the whole update.
            lowering: ``"fused"`` or ``"reference"``.
        """
        self._value_type = value_type
        self._types = structures.tensor_types(value_type)
        self._rounds = Rounds(encoder, [tuple(t.shape) for t in self._types])
        trace = functools.partial(tracing.trace, lowering)
        self.init_client = trace(self._init_client)
        self.init_server = trace(self._init_server)
        server_state_type = self.init_server.type_signature.result
        self.server_message = trace(lambda state: state, server_state_type)
        self.encode = trace(
            self._encode,
            value_type,
            tff.TensorType(np.float32),
            self.init_client.type_signature.result,
            self.server_message.type_signature.result,
        )
        total_type = tff.to_type(
            collections.OrderedDict(
                vectors=self.encode.type_signature.result.message, clients=tff.TensorType(np.int32)
            )
        )
        self.finish = trace(self._finish, total_type, server_state_type)

    def aggregate(self, messages: Structure) -> Structure:
        """``{M}@CLIENTS -> A@SERVER``; to be called in a `tff.federated_computation`."""
        vectors = tff.federated_secure_sum_bitwidth(messages, self._rounds.encoder.bits)
        clients = tff.federated_secure_sum_bitwidth(tff.federated_value(np.int32(1), tff.CLIENTS), 1)
        return tff.federated_zip(collections.OrderedDict(vectors=vectors, clients=clients))

    def _init_client(self) -> Structure:
        return {"residual": tf.zeros([self._rounds.size], tf.float32)}

    def _init_server(self) -> Structure:
        return {key: tf.constant(value) for key, value in self._rounds.init_server().items()}

    def _encode(
        self, value: Structure, weight: tf.Tensor, state: Structure, server_message: Structure
    ) -> Structure:
        update = [tf.reshape(x, [-1]) for x in structures.flatten(value, self._value_type)]
        flat = tf.concat([tf.cast(x, tf.float32) for x in update], axis=0)
        finite = ops.all_finite([flat, weight])
        vector, residual = tf.cond(
            finite & (weight > 0),
            lambda: self._rounds.encode(flat, state["residual"], weight, server_message),
            lambda: (self._rounds.no_update(tf.cast(~finite, tf.int32)), state["residual"]),
        )
        return {"message": vector, "state": {"residual": residual}}

    def _finish(self, total: Structure, state: Structure) -> Structure:
        summed, next_state = self._rounds.decode(total["vectors"], state)
        sizes = [math.prod(t.shape) for t in self._types]
        parts = [
            ops.saturate_cast(tf.reshape(part, t.shape), t.dtype)
            for part, t in zip(tf.split(summed.update, sizes), self._types, strict=True)
        ]
        per_client = (self._rounds.length * self._rounds.encoder.bits + 7) // 8
        return {
            "value": structures.unflatten(parts, self._value_type),
            "state": next_state,
            "measurements": {
                "uplink_bytes": tf.cast(total["clients"], tf.int64) * per_client,
                "clients": total["clients"],
                "payloads": summed.clients,
                "nonfinite_updates": summed.refused,
                "clipped": summed.clipped,
                "largest": ops.max(state["largest"]),
            },
        }
