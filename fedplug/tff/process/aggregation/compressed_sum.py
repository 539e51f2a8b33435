"""A compressed sum: TFF sums the payloads, and the server decodes the sum once.

Only the floats of a payload are summed, so the inner sum can be a secure one, which hides the payloads of
single clients. The other parts of a payload are equal for all clients of a round. The server recomputes them.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_federated as tff

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload
from fedplug.errors import ConfigError
from fedplug.tff import structures
from fedplug.tff.aggregators.sums import Sum
from fedplug.tff.process import compatibility
from fedplug.tff.process.aggregation.transform import Transform, TransformFactory
from fedplug.tff.process.arguments import as_encoder
from fedplug.tff.structures import Structure

__all__ = ["build_compressed_sum_factory"]


class _Encoded(Transform):
    """Encodes a value's tensors. The state is the round number, which seeds the random choices."""

    def __init__(self, encoder: Encoder, value_type: tff.Type) -> None:
        self._encoder = encoder
        self._type = value_type
        types = structures.tensor_types(value_type)
        self._specs = [tf.TensorSpec(t.shape, t.dtype) for t in types]

    def init_state(self) -> Structure:
        return tf.constant(0, tf.int32)

    def forward(self, value: Structure, state: Structure) -> Structure:
        payloads = self._payloads(structures.flatten(value, self._type), state)
        return tuple(_floats(payload) for payload in payloads)

    def backward(self, total: Structure, state: Structure) -> Structure:
        zeros = [tf.zeros(spec.shape, spec.dtype) for spec in self._specs]
        payloads = [
            {**of_zeros, **sums} for of_zeros, sums in zip(self._payloads(zeros, state), total, strict=True)
        ]
        decoded = [self._encoder.decode(p, spec) for p, spec in zip(payloads, self._specs, strict=True)]
        return structures.unflatten(decoded, self._type)

    def next_state(self, total: Structure, state: Structure) -> Structure:
        del total
        return state + 1

    def _payloads(self, xs: Sequence[tf.Tensor], round_num: tf.Tensor) -> list[Payload]:
        encoder = self._encoder
        return [
            encoder.encode(x, encoder.init_state(spec), round_num)[0]
            for x, spec in zip(xs, self._specs, strict=True)
        ]


def _floats(payload: Payload) -> Structure:
    return collections.OrderedDict((key, x) for key, x in sorted(payload.items()) if ops.is_floating(x.dtype))


class _CompressedSumFactory(tff.aggregators.UnweightedAggregationFactory):
    def __init__(self, encoder: Encoder, inner: tff.aggregators.UnweightedAggregationFactory | None) -> None:
        self._encoder = encoder
        self._inner = inner

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        return TransformFactory(_Encoded(self._encoder, value_type), self._inner).create(value_type)


def build_compressed_sum_factory(
    encoder: Encoder | str, inner: tff.aggregators.UnweightedAggregationFactory | None = None
) -> tff.aggregators.UnweightedAggregationFactory:
    """Returns a `tff.aggregators.UnweightedAggregationFactory` that sums payloads and decodes the sum once.

    Args:
        encoder: An encoder that is secure_aggregation_safe, or an expression, such as ``"randomk(0.1)"``,
            which sends the same random entries of every client.
        inner: The factory that sums the payloads, such as a `tff.aggregators.SecureSumFactory`. Default:
            `tff.aggregators.SumFactory`.

    Raises:
        CapabilityError: The encoder is not secure_aggregation_safe.
        ConfigError: The expression is not valid, or is for a whole model, such as rules.
    """
    chosen = as_encoder(encoder)
    if not isinstance(chosen, Encoder):
        raise ConfigError(
            f"{chosen!r} is for a whole model; a sum of payloads takes one encoder for all tensors"
        )
    compatibility.check(
        compatibility.Configuration(
            encoders=((chosen, frozenset()),), aggregator=Sum(), keeps_client_state=False, secure_sum="floats"
        ),
        warn=False,
    )
    return _CompressedSumFactory(chosen, inner)
