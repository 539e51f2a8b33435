"""Encoders and aggregators as TFF computations: what happens on a client, what happens on the server.

The one place where their pure TensorFlow functions meet TFF's types. Used by the stateful process (`fed_avg`)
and by the stateless aggregation factory (`factory`); knows neither.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug import ops
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model import tensor_metrics as per_tensor
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.tff import structures
from fedplug.tff.aggregators.base import Aggregator, Update
from fedplug.tff.process import tracing

__all__ = ["EncodedAggregation", "build_encoded_aggregation", "model_encoder"]

_MEASUREMENTS = ("uplink_bytes", "clients", "payloads", "nonfinite_updates")
_COUNTERS = (*_MEASUREMENTS, "tensor_bytes")


class EncodedAggregation(NamedTuple):
    """The computations of an encoded aggregation; V is the update's type, C a client's state, S the server's.

    S is ``<round_num=int32,control=K,inner=...>``: the round, what rate control keeps (`RateControl.init`,
    empty without one), and the aggregator's own state.

    The message a client sends is ``<buffers=<uint8[?],...>,weight=float32,finite=bool,report=...>``, the
    report being what `RateControl.report` says, nothing without one; the measurements
    are ``<uplink_bytes=int64,clients=int32,payloads=int32,nonfinite_updates=int32>`` of the round: the bytes
    of all buffers, how many clients took part, how many sent a payload, and how many had a NaN or an
    infinity; what `RateControl.metrics` says, nothing without one; and with tensor metrics ``tensors=<
    uplink_bytes=int64[T],header_bytes=int64[T],index_bytes=int64[T],value_bytes=int64[T],
    entropy_bytes=float64[T],nmse=float64[T],residual_ratio=float64[T]>``, a number for each of the T tensors,
    see `fedplug.encoders.model.tensor_metrics`. A message then has what these are made of, ``tensors=...``,
    which counts in no number of bytes.

    Attributes:
        init_client: ``( -> C)``
        encode: ``(<V,float32,C,I> -> <message=...,state=C>)`` of an update, its weight, the client's state
            and the server's instructions. An update with a non-finite value, or whose weight is not positive,
            is not sent: its buffers are empty and the client's state is returned unchanged.
        init_server: ``( -> S)``
        server_message: ``(S -> I)``, what the clients of a round are told, ``<round_num=int32,control=K>``.
        zero: ``( -> A)``
        accumulate: ``(<A,message> -> A)``
        merge: ``(<A,A> -> A)``
        finish: ``(<A,S> -> <value=V,state=S,measurements=...>)``; the state is that of the next round. If the
            value or the state would not be finite, the value is zero and only the state's round moves on.
    """

    init_client: Any
    encode: Any
    init_server: Any
    server_message: Any
    zero: Any
    accumulate: Any
    merge: Any
    finish: Any

    def aggregate(self, messages: Any) -> Any:
        """``{message}@CLIENTS -> A@SERVER``; to be called in a `tff.federated_computation`."""

        @tff.tensorflow.computation(self.zero.type_signature.result)
        def as_it_is(accumulator: Any) -> Any:
            return accumulator

        return tff.federated_aggregate(messages, self.zero(), self.accumulate, self.merge, as_it_is)


def model_encoder(
    encoder: Encoder | EncoderAssignment, value_type: Any, min_size: int, names: Sequence[str] | None = None
) -> ModelEncoder:
    """An encoder for values of a TFF type.

    Args:
        encoder: For every tensor, or what says which for which.
        value_type: A tensor or a structure of tensors.
        min_size: Tensors with fewer elements are sent as they are.
        names: Of the tensors, for rules; default: their paths in the type, as of `structures.paths`.

    Raises:
        ConfigError: The type is not a tensor or a structure of tensors of known shapes, or there is not a
            name for each of them.
    """
    types = structures.tensor_types(value_type)
    names = structures.paths(value_type) if names is None else names
    if len(names) != len(types):
        raise ConfigError(f"there are {len(names)} names for {len(types)} tensors: {', '.join(names)}")
    specs = [tf.TensorSpec(t.shape, t.dtype, name) for t, name in zip(types, names, strict=True)]
    return ModelEncoder(encoder, specs, min_size=min_size)


def build_encoded_aggregation(
    value_type: Any,
    encoder: ModelEncoder,
    aggregator: Aggregator,
    lowering: str,
    *,
    tensor_metrics: bool = False,
) -> EncodedAggregation:
    """Traces all computations of an encoded aggregation.

    Args:
        value_type: The TFF type of an update: a tensor or a structure of tensors.
        encoder: For that type, see `model_encoder`.
        aggregator: How the server combines the updates.
        lowering: ``"fused"`` or ``"reference"``, for every custom op in the graphs.
        tensor_metrics: Whether clients also measure what became of each tensor.

    Raises:
        ConfigError: A tensor is of bool, or the aggregator makes something else of such values than a value
            of their type.
    """
    for position, spec in enumerate(encoder.specs):
        if spec.dtype.is_bool:
            raise ConfigError(f"tensor {position} is of bool, which cannot be added up; cast it to a float")
    trace = functools.partial(tracing.trace, lowering)
    specs, control = encoder.specs, encoder.rate_control
    reported = control.reported if control is not None else ()

    def no_report() -> dict[str, tf.Tensor]:
        return {key: tf.zeros([], tf.float32) for key in reported}

    def report(update: Any, buffers: Any, next_states: Any) -> dict[str, tf.Tensor]:
        if control is None or not reported:
            return {}
        return control.report(update, encoder.decode(buffers), next_states)

    def no_tensors() -> dict[str, Any]:
        if not tensor_metrics:
            return {}
        return {"tensors": {key: tf.zeros([len(specs)], dtype) for key, dtype in per_tensor.SUMS.items()}}

    def tensors(update: Any, buffers: Any, next_states: Any) -> dict[str, Any]:
        if not tensor_metrics:
            return {}
        return {"tensors": per_tensor.measure(encoder, update, buffers, next_states)}

    def init_client() -> Any:
        return encoder.init_state()

    def encode(value: Any, weight: tf.Tensor, state: Any, instructions: Any) -> Any:
        update = structures.flatten(value, value_type)
        finite = ops.all_finite([*(x for x in update if x.dtype.is_floating), weight])

        def sent() -> Any:
            buffers, next_state = encoder.encode(
                update, state, instructions["round_num"], instructions["control"]
            )
            told = report(update, buffers, next_state)
            return buffers, told, tensors(update, buffers, next_state), next_state

        def nothing() -> Any:
            return tuple(tf.zeros([0], tf.uint8) for _ in specs), no_report(), no_tensors(), state

        buffers, told, measured, next_state = tf.cond(finite & (weight > 0), sent, nothing)
        return {
            "message": {"buffers": buffers, "weight": weight, "finite": finite, "report": told, **measured},
            "state": next_state,
        }

    def init_server() -> Any:
        return {
            "round_num": tf.constant(0, tf.int32),
            "control": {} if control is None else control.init(),
            "inner": aggregator.init_state(specs),
        }

    def instructions(state: Any) -> Any:
        return {"round_num": state["round_num"], "control": state["control"]}

    def zero() -> Any:
        counters = {
            "uplink_bytes": tf.zeros([], tf.int64),
            **{key: tf.zeros([], tf.int32) for key in ("clients", "payloads", "nonfinite_updates")},
            "tensor_bytes": tf.zeros([len(specs)], tf.int64),
        }
        return {"inner": aggregator.zero(specs), **counters, "report": no_report(), **no_tensors()}

    def accumulate(accumulator: Any, message: Any) -> Any:
        sizes = tf.stack([tf.size(buffer, tf.int64) for buffer in message["buffers"]])
        size = tf.reduce_sum(sizes)
        inner = tf.cond(
            size > 0,
            lambda: aggregator.accumulate(
                accumulator["inner"], Update(encoder, message["buffers"]), message["weight"]
            ),
            lambda: accumulator["inner"],
        )
        return {
            "inner": inner,
            "uplink_bytes": accumulator["uplink_bytes"] + size,
            "clients": accumulator["clients"] + 1,
            "payloads": accumulator["payloads"] + tf.cast(size > 0, tf.int32),
            "nonfinite_updates": accumulator["nonfinite_updates"] + tf.cast(~message["finite"], tf.int32),
            "tensor_bytes": accumulator["tensor_bytes"] + sizes,
            **add(accumulator, message),
        }

    def add(left: Any, right: Any) -> dict[str, Any]:
        sums = {"report": {key: left["report"][key] + right["report"][key] for key in reported}}
        if tensor_metrics:
            sums["tensors"] = {key: left["tensors"][key] + right["tensors"][key] for key in per_tensor.SUMS}
        return sums

    def merge(left: Any, right: Any) -> Any:
        counters = {key: left[key] + right[key] for key in _COUNTERS}
        return {
            "inner": aggregator.merge(left["inner"], right["inner"]),
            **counters,
            **add(left, right),
        }

    def finish(accumulator: Any, state: Any) -> Any:
        update, inner = aggregator.finish(accumulator["inner"], state["inner"])
        update = tuple(
            tf.cast(x, spec.dtype) if x.dtype.is_floating and spec.dtype.is_floating else x
            for x, spec in zip(update, specs, strict=True)
        )
        measured = {**{key: accumulator[key] for key in _COUNTERS}, **accumulator["report"]}
        control_state = {} if control is None else control.next(state["control"], measured)
        after = (update, inner, control_state)
        before = (tuple(map(tf.zeros_like, update)), state["inner"], state["control"])
        # Finite updates and weights can make an infinite sum; such a round counts as one without clients.
        finite = ops.all_finite([tf.zeros([]), *(x for x in tf.nest.flatten(after) if x.dtype.is_floating)])
        update, inner, control_state = tf.nest.map_structure(
            lambda new, old: tf.where(finite, new, old), after, before
        )
        return {
            "value": structures.unflatten(update, value_type),
            "state": {"round_num": state["round_num"] + 1, "control": control_state, "inner": inner},
            "measurements": {
                **{key: measured[key] for key in _MEASUREMENTS},
                **({} if control is None else control.metrics(state["control"], measured)),
                **({"tensors": per_tensor.summarize(accumulator["tensors"])} if tensor_metrics else {}),
            },
        }

    client_init = trace(init_client)
    server_init = trace(init_server)
    server_state_type = server_init.type_signature.result
    server_message = trace(instructions, server_state_type)
    client_encode = trace(
        encode,
        value_type,
        tff.TensorType(np.float32),
        client_init.type_signature.result,
        server_message.type_signature.result,
    )
    server_zero = trace(zero)
    accumulator_type = server_zero.type_signature.result
    message_type = client_encode.type_signature.result.message
    server_finish = trace(finish, accumulator_type, server_state_type)
    result_type = server_finish.type_signature.result.value
    if not value_type.is_assignable_from(result_type):
        raise ConfigError(
            f"{aggregator!r} makes {result_type} of values of type {value_type}, and has to keep the type; "
            "cast whole numbers to floats, or add them up with the aggregator 'sum'"
        )
    return EncodedAggregation(
        init_client=client_init,
        encode=client_encode,
        init_server=server_init,
        server_message=server_message,
        zero=server_zero,
        accumulate=trace(accumulate, accumulator_type, message_type),
        merge=trace(merge, accumulator_type, accumulator_type),
        finish=server_finish,
    )
