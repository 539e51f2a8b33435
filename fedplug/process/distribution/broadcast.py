"""The server's model sent to the clients as encoded differences to what it sent before: the computations.

The difference of the server's model to the model it sent is all the error feedback there is: what one
broadcast leaves out is in the next difference. So an encoder's own state is not used here, and what an
encoder leaves out must be less than it was given. Must not know what clients do with a model.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug import ops, tff_structures
from fedplug.encoders.identity import Identity
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.probe import normal_numbers
from fedplug.errors import CapabilityError
from fedplug.process import tracing

__all__ = ["EncodedBroadcast", "build_encoded_broadcast"]

_NEVER = -1


class EncodedBroadcast(NamedTuple):
    """The computations of an encoded broadcast; V is the model's type, S the server's state, M a message.

    S is ``<sent=V,round_num=int32,position=int64>``: the model that clients hold, the number of broadcasts,
    and how many bytes they were together; with rate control also ``control=K``, see `RateControl.init`. M is
    ``<buffers=<uint8[?],...>,whole=bool,position=int64>``: the first message holds the whole model, later
    ones a difference to what was sent before, and the position is the one after it.

    **Catching up.** A client says how far it heard: its position. One that missed rounds is sent either all
    messages it missed, or the model as sent, whole, whichever is fewer bytes. Either way it ends with
    ``sent``, bit for bit, as the server computes ``sent`` by `receive` from its own messages. A server thus
    has to keep no more old messages than are as long as one whole model.

    Attributes:
        encoder: Of the differences.
        init: ``( -> S)``
        publish: ``(<V,S> -> <message=M,state=S>)``
        receive: ``(<V,M> -> V)`` of the model that was sent before and a message; V is then ``sent``.
        init_client: ``( -> int64)``, the position of a client that has heard nothing.
        catch_up: ``(<int64,M> -> <downlink_bytes=int64,position=int64>)`` of a client's position: what it has
            to be sent so that it has ``sent``, this message included, and its position then.
    """

    encoder: ModelEncoder
    init: Any
    publish: Any
    receive: Any
    init_client: Any
    catch_up: Any


def build_encoded_broadcast(value_type: Any, encoder: ModelEncoder, lowering: str) -> EncodedBroadcast:
    """Traces all computations of an encoded broadcast.

    Source: Gruntkowska, Tyurin, Richtarik, "EF21-P and Friends: Improved Theoretical Communication Complexity
    for Distributed Optimization with Bidirectional Compression", ICML 2023 (arXiv 2209.15218), EF21-P.

    Args:
        value_type: The TFF type of the model: a tensor or a structure of tensors.
        encoder: For that type.
        lowering: ``"fused"`` or ``"reference"``.

    Raises:
        CapabilityError: The encoder leaves out more than it is given.
    """
    trace = functools.partial(tracing.trace, lowering)
    whole = ModelEncoder(Identity(), encoder.specs, min_size=0)
    control = encoder.rate_control
    _check_contraction(encoder, lowering)

    def init() -> Any:
        zeros = [tf.zeros(spec.shape, spec.dtype) for spec in encoder.specs]
        return collections.OrderedDict(
            sent=tff_structures.unflatten(zeros, value_type),
            round_num=tf.constant(0, tf.int32),
            position=tf.constant(0, tf.int64),
            **({} if control is None else {"control": control.init()}),
        )

    def next_control(state: Any, buffers: Any, differences: Any, next_states: Any) -> dict[str, Any]:
        """By the message of this round, which all clients are sent."""
        if control is None:
            return {}
        encoded = state["round_num"] > 0  # the first message holds the whole model
        measured = {
            "tensor_bytes": tf.stack([tf.where(encoded, tf.size(b, tf.int64), 0) for b in buffers]),
            "payloads": tf.cast(encoded, tf.int32),
        }
        if control.reported:
            received = tf.cond(encoded, lambda: encoder.decode(buffers), lambda: tuple(differences))
            measured |= control.report(differences, received, next_states)
        return {"control": control.next(state["control"], measured)}

    def apply(sent: Sequence[tf.Tensor], message: Any) -> Any:
        """An encoded difference is added; what is not of floats was sent as it is."""
        buffers = message["buffers"]
        return tf.cond(
            message["whole"],
            lambda: whole.decode(buffers),
            lambda: tuple(
                old + new if old.dtype.is_floating else new
                for old, new in zip(sent, encoder.decode(buffers), strict=True)
            ),
        )

    def publish(value: Any, state: Any) -> Any:
        tensors, sent = (
            tff_structures.flatten(value, value_type),
            tff_structures.flatten(state["sent"], value_type),
        )
        finite = [tf.reduce_all(tf.math.is_finite(x)) for x in tensors if x.dtype.is_floating]
        with ops.require(tf.reduce_all(finite), "the model to be broadcast holds a NaN or an infinity"):
            tensors = [tf.identity(x) for x in tensors]
        differences = [x - y if x.dtype.is_floating else x for x, y in zip(tensors, sent, strict=True)]
        round_num = state["round_num"]
        first = tf.equal(round_num, 0)
        nothing = encoder.init_state()
        buffers, next_states = tf.cond(
            first,
            lambda: (whole.encode(tensors, whole.init_state(), round_num)[0], nothing),
            lambda: encoder.encode(differences, nothing, round_num, state.get("control")),
        )
        position = state["position"] + tf.add_n([tf.size(buffer, tf.int64) for buffer in buffers])
        message = collections.OrderedDict(buffers=buffers, whole=first, position=position)
        next_state = collections.OrderedDict(
            sent=tff_structures.unflatten(apply(sent, message), value_type),
            round_num=round_num + 1,
            position=position,
            **next_control(state, buffers, differences, next_states),
        )
        return collections.OrderedDict(message=message, state=next_state)

    def receive(sent: Any, message: Any) -> Any:
        return tff_structures.unflatten(apply(tff_structures.flatten(sent, value_type), message), value_type)

    def init_client() -> Any:
        return tf.constant(_NEVER, tf.int64)

    def catch_up(position: tf.Tensor, message: Any) -> Any:
        missed = tf.where(position == _NEVER, whole_bytes, message["position"] - position)
        return collections.OrderedDict(
            downlink_bytes=tf.minimum(missed, whole_bytes), position=message["position"]
        )

    whole_bytes = tf.constant(_length(whole), tf.int64).numpy()
    server_init = trace(init)
    server_publish = trace(publish, value_type, server_init.type_signature.result)
    message_type = server_publish.type_signature.result.message
    return EncodedBroadcast(
        encoder=encoder,
        init=server_init,
        publish=server_publish,
        receive=trace(receive, value_type, message_type),
        init_client=trace(init_client),
        catch_up=trace(catch_up, tff.TensorType(np.int64), message_type),
    )


def _length(whole: ModelEncoder) -> int:
    """Of all buffers of a model that is sent as it is; the same for every model of these specs."""
    zeros = [tf.zeros(spec.shape, spec.dtype) for spec in whole.specs]
    with ops.use_lowering("reference"):
        buffers, _ = whole.encode(zeros, whole.init_state(), tf.constant(0))
    return sum(int(tf.size(buffer)) for buffer in buffers)


def _check_contraction(encoder: ModelEncoder, lowering: str) -> None:
    """A necessary condition, tried on normal numbers: ``||x - decode(encode(x))|| < ||x||``.

    What a broadcast leaves out comes back in the next difference, so it dies out only if encoding is such a
    contraction, as EF21-P asks for. Unbiased encoders that scale up what they send, such as ``randomk``
    without error feedback or ``terngrad``, are none.
    """
    xs = normal_numbers(encoder.specs)
    with ops.use_lowering(lowering):
        buffers, _ = encoder.encode(xs, encoder.init_state(), tf.constant(0))
        decoded = encoder.decode(buffers)
    for position, (x, y) in enumerate(zip(xs, decoded, strict=True)):
        size, error = (float(tf.norm(tf.cast(z, tf.float64))) for z in (x, x - y))
        if x.dtype.is_floating and size and not error < size:
            raise CapabilityError(
                f"{encoder.encoder!r} cannot encode a broadcast: for tensor {position} it leaves out "
                f"{error / size:.2f} times what it was given, so what is left out would grow from round to "
                "round; take an encoder that comes closer, for instance topk(0.1) or qsgd(8)"
            )
