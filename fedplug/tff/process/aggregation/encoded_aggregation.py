"""Encoders and aggregators as TFF computations: the steps of clients and of the server.

Only this module combines their TensorFlow functions with TFF's types. The stateful process (`fed_avg`) and
the stateless aggregation factory (`factory`) use it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model import tensor_metrics as per_tensor
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.tff import structures
from fedplug.tff.aggregators.base import Aggregator, Update
from fedplug.tff.process import tracing
from fedplug.tff.structures import Structure

__all__ = ["EncodedAggregation", "model_encoder"]

_MEASUREMENTS = ("uplink_bytes", "clients", "payloads", "nonfinite_updates")
_COUNTERS = (*_MEASUREMENTS, "tensor_bytes")


class EncodedAggregation:
    """Encodes updates on the clients and aggregates the payloads on the server.

    The types below: V is the update, C the client's state, S the server's state, N the server message, M the
    client's message, A the accumulator.

    S is ``<round_num=int32,control=K,inner=...>``: the round, the state of rate control (`RateControl.init`,
    empty without it), and the aggregator's own state. N is ``<round_num=int32,control=K>``.

    M is ``<buffers=<uint8[?],...>,weight=float32,finite=bool,report=...>``. The report is the result of
    `RateControl.report`, empty without it. With tensor metrics M also has ``tensors=...``, the values of
    `fedplug.encoders.model.tensor_metrics`, which count in no number of bytes.

    The measurements of a round are
    ``<uplink_bytes=int64,clients=int32,payloads=int32,nonfinite_updates=int32>``: the bytes of all buffers,
    the number of clients, of those that sent a payload, and of those with a NaN or an infinity. Rate control
    adds `RateControl.metrics`. Tensor metrics add ``tensors=<uplink_bytes=int64[T],header_bytes=int64[T],
    index_bytes=int64[T],value_bytes=int64[T],entropy_bytes=float64[T],nmse=float64[T],
    residual_ratio=float64[T]>``, one number for each of the T tensors.

    Attributes:
        init_client: ``( -> C)``
        encode: ``(<V,float32,C,N> -> <message=M,state=C>)`` of an update, its weight, the client's state and
            the server message. If the update is not finite or its weight is not positive, the buffers are
            empty and the client's state is unchanged.
        init_server: ``( -> S)``
        server_message: ``(S -> N)``, sent to the clients of a round.
        zero: ``( -> A)``
        accumulate: ``(<A,M> -> A)``
        merge: ``(<A,A> -> A)``
        finish: ``(<A,S> -> <value=V,state=S,measurements=...>)``; the state is that of the next round. If the
            value or the state would not be finite, the value is zero and only the state's round changes.
    """

    def __init__(
        self,
        value_type: tff.Type,
        encoder: ModelEncoder,
        aggregator: Aggregator,
        lowering: str,
        *,
        tensor_metrics: bool = False,
    ) -> None:
        """Traces all computations.

        Args:
            value_type: The TFF type of an update: a tensor or a structure of tensors.
            encoder: The encoder for that type, see `model_encoder`.
            aggregator: Combines the updates on the server.
            lowering: ``"fused"`` or ``"reference"``, for every custom op in the graphs.
            tensor_metrics: Whether clients also measure each tensor.

        Raises:
            ConfigError: A tensor is of bool, or the aggregator does not keep the type of the values.
        """
        for position, spec in enumerate(encoder.specs):
            if spec.dtype == tf.bool:
                raise ConfigError(
                    f"tensor {position} is of bool, which cannot be added up; cast it to a float"
                )
        self._value_type = value_type
        self._encoder = encoder
        self._aggregator = aggregator
        self._control = encoder.rate_control
        self._reported = encoder.rate_control.reported if encoder.rate_control is not None else ()
        self._tensor_metrics = tensor_metrics
        trace = functools.partial(tracing.trace, lowering)
        self.init_client = trace(self._init_client)
        self.init_server = trace(self._init_server)
        server_state_type = self.init_server.type_signature.result
        self.server_message = trace(self._server_message, server_state_type)
        self.encode = trace(
            self._encode,
            value_type,
            tff.TensorType(np.float32),
            self.init_client.type_signature.result,
            self.server_message.type_signature.result,
        )
        self.zero = trace(self._zero)
        accumulator_type = self.zero.type_signature.result
        self.accumulate = trace(self._accumulate, accumulator_type, self.encode.type_signature.result.message)
        self.merge = trace(self._merge, accumulator_type, accumulator_type)
        self.finish = trace(self._finish, accumulator_type, server_state_type)
        result_type = self.finish.type_signature.result.value
        if not value_type.is_assignable_from(result_type):
            raise ConfigError(
                f"{aggregator!r} makes {result_type} of values of type {value_type}, and has to keep the "
                "type; cast whole numbers to floats, or add them up with the aggregator 'sum'"
            )

    def aggregate(self, messages: Structure) -> Structure:
        """``{M}@CLIENTS -> A@SERVER``; to be called in a `tff.federated_computation`."""

        @tff.tensorflow.computation(self.zero.type_signature.result)
        def unchanged(accumulator: Structure) -> Structure:
            return accumulator

        return tff.federated_aggregate(messages, self.zero(), self.accumulate, self.merge, unchanged)

    def _init_client(self) -> Structure:
        return self._encoder.init_state()

    def _encode(
        self, value: Structure, weight: tf.Tensor, state: Structure, server_message: Structure
    ) -> Structure:
        update = structures.flatten(value, self._value_type)
        finite = ops.all_finite([*(x for x in update if x.dtype.is_floating), weight])
        buffers, report, measured, next_state = tf.cond(
            finite & (weight > 0),
            lambda: self._payload(update, state, server_message),
            lambda: self._no_payload(state),
        )
        return {
            "message": {"buffers": buffers, "weight": weight, "finite": finite, "report": report, **measured},
            "state": next_state,
        }

    def _payload(self, update: Sequence[tf.Tensor], state: Structure, server_message: Structure) -> Structure:
        """Returns the buffers, the report, the tensor metrics and the next state."""
        buffers, next_state = self._encoder.encode(
            update, state, server_message["round_num"], server_message["control"]
        )
        report, measured = {}, {}
        if self._control is not None and self._reported:
            report = self._control.report(update, self._encoder.decode(buffers), next_state)
        if self._tensor_metrics:
            measured = {"tensors": per_tensor.measure(self._encoder, update, buffers, next_state)}
        return buffers, report, measured, next_state

    def _no_payload(self, state: Structure) -> Structure:
        """Returns the same for a client that sends nothing."""
        buffers = tuple(tf.zeros([0], tf.uint8) for _ in self._encoder.specs)
        return buffers, self._no_report(), self._no_tensors(), state

    def _no_report(self) -> dict[str, tf.Tensor]:
        return {key: tf.zeros([], tf.float32) for key in self._reported}

    def _no_tensors(self) -> dict[str, Structure]:
        if not self._tensor_metrics:
            return {}
        shape = [len(self._encoder.specs)]
        return {"tensors": {key: tf.zeros(shape, dtype) for key, dtype in per_tensor.SUMS.items()}}

    def _init_server(self) -> Structure:
        return {
            "round_num": tf.constant(0, tf.int32),
            "control": {} if self._control is None else self._control.init(),
            "inner": self._aggregator.init_state(self._encoder.specs),
        }

    def _server_message(self, state: Structure) -> Structure:
        return {"round_num": state["round_num"], "control": state["control"]}

    def _zero(self) -> Structure:
        return {
            "inner": self._aggregator.zero(self._encoder.specs),
            "uplink_bytes": tf.zeros([], tf.int64),
            **{key: tf.zeros([], tf.int32) for key in ("clients", "payloads", "nonfinite_updates")},
            "tensor_bytes": tf.zeros([len(self._encoder.specs)], tf.int64),
            "report": self._no_report(),
            **self._no_tensors(),
        }

    def _accumulate(self, accumulator: Structure, message: Structure) -> Structure:
        sizes = tf.stack([tf.size(buffer, tf.int64) for buffer in message["buffers"]])
        size = tf.reduce_sum(sizes)
        update = Update(self._encoder, message["buffers"])
        inner = tf.cond(
            size > 0,
            lambda: self._aggregator.accumulate(accumulator["inner"], update, message["weight"]),
            lambda: accumulator["inner"],
        )
        return {
            "inner": inner,
            "uplink_bytes": accumulator["uplink_bytes"] + size,
            "clients": accumulator["clients"] + 1,
            "payloads": accumulator["payloads"] + tf.cast(size > 0, tf.int32),
            "nonfinite_updates": accumulator["nonfinite_updates"] + tf.cast(~message["finite"], tf.int32),
            "tensor_bytes": accumulator["tensor_bytes"] + sizes,
            **self._add_reports(accumulator, message),
        }

    def _merge(self, left: Structure, right: Structure) -> Structure:
        return {
            "inner": self._aggregator.merge(left["inner"], right["inner"]),
            **{key: left[key] + right[key] for key in _COUNTERS},
            **self._add_reports(left, right),
        }

    def _add_reports(self, left: Structure, right: Structure) -> dict[str, Structure]:
        """Adds the reports and the tensor metrics of two accumulators, or of one and a message."""
        sums = {"report": {key: left["report"][key] + right["report"][key] for key in self._reported}}
        if self._tensor_metrics:
            sums["tensors"] = {key: left["tensors"][key] + right["tensors"][key] for key in per_tensor.SUMS}
        return sums

    def _finish(self, accumulator: Structure, state: Structure) -> Structure:
        specs, control = self._encoder.specs, self._control
        update, inner = self._aggregator.finish(accumulator["inner"], state["inner"])
        update = tuple(
            tf.cast(x, spec.dtype) if x.dtype.is_floating and ops.is_floating(spec.dtype) else x
            for x, spec in zip(update, specs, strict=True)
        )
        measured = {**{key: accumulator[key] for key in _COUNTERS}, **accumulator["report"]}
        control_state = {} if control is None else control.next(state["control"], measured)
        update, inner, control_state = _if_finite(
            (update, inner, control_state),
            (tuple(map(tf.zeros_like, update)), state["inner"], state["control"]),
        )
        return {
            "value": structures.unflatten(update, self._value_type),
            "state": {"round_num": state["round_num"] + 1, "control": control_state, "inner": inner},
            "measurements": {
                **{key: measured[key] for key in _MEASUREMENTS},
                **({} if control is None else control.metrics(state["control"], measured)),
                **({"tensors": per_tensor.summarize(accumulator["tensors"])} if self._tensor_metrics else {}),
            },
        }


def _if_finite(after: Structure, before: Structure) -> Structure:
    """Returns ``after`` if all its floats are finite, else ``before``.

    Finite updates and weights can have an infinite sum. Such a round counts as one without clients.
    """
    finite = ops.all_finite([tf.zeros([]), *(x for x in tf.nest.flatten(after) if x.dtype.is_floating)])
    return tf.nest.map_structure(lambda new, old: tf.where(finite, new, old), after, before)


def model_encoder(
    encoder: Encoder | EncoderAssignment,
    value_type: tff.Type,
    min_size: int,
    names: Sequence[str] | None = None,
) -> ModelEncoder:
    """Returns an encoder for values of a TFF type.

    Args:
        encoder: The encoder of every tensor, or an assignment.
        value_type: A tensor or a structure of tensors.
        min_size: Tensors with fewer elements are sent uncompressed.
        names: The names of the tensors, for rules. Default: their paths in the type, see `structures.paths`.

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
