"""QSGD with as many bits as there are to spend: more for one tensor, fewer for another. Must not know TFF."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import tensorflow as tf

from fedplug.encoders import serialization
from fedplug.encoders.arguments import check_number
from fedplug.encoders.arithmetic import mean_magnitude
from fedplug.encoders.assignment.bit_allocation import share_out
from fedplug.encoders.base import Payload, State
from fedplug.encoders.checks import require
from fedplug.encoders.quantizer import CodedQuantizer
from fedplug.encoders.quantizers import block_scaling
from fedplug.encoders.quantizers.qsgd import LEAST_BITS, MOST_BITS, QSGD
from fedplug.registry.specs import Capabilities
from fedplug.schedules import Schedule, as_schedule, schedule_config

__all__ = ["MixedQSGD"]

_HEADER_BYTES = 5


class MixedQSGD(CodedQuantizer):
    """`QSGD` with a mean number of bits over all elements of all tensors that share it: what budgets adjust.

    Which tensor gets how many follows from the update: a block of n elements with the largest magnitude s
    and b bits has an expected squared error of about ``n s^2 / (6 L^2)`` with ``L = 2^(b-1) - 1``, the
    variance of rounding at random to levels ``s / L`` apart; bits are given where that falls most, see
    `share_out`. The last tensor served gets a bit more for its first elements than for the others, so that
    the bits are spent to the last one. Every element has 2 bits at least, and so remains unbiased.

    Wire form "qsgd/2": uint8 b; uint32 m; the "qsgd/1" form of the first m elements with b + 1 bits, and that
    of the others with b bits; m is 0 where b is 8. That is 7 bytes more than "qsgd/1" takes, and up to one
    scale.
    """

    name: ClassVar[str] = "mixed_qsgd"
    wire_id: ClassVar[str] = "qsgd/2"

    def __init__(self, bits: float | Schedule = 8, *, block_size: int = 512, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: The mean, a number from 2 to 8; or a schedule of such numbers.
            block_size: As for `QSGD`.
            seed: As for `QSGD`.

        Raises:
            ConfigError: One of them is out of range.
        """
        mean = as_schedule(bits)
        for value in mean.values():
            in_range = f"from {LEAST_BITS} to {MOST_BITS}"
            check_number("mixed_qsgd bits", value, lambda bits: LEAST_BITS <= bits <= MOST_BITS, in_range)
        self._mean = mean
        self._qsgd = QSGD(block_size=block_size, seed=seed)
        self._block_size = block_size
        self._seed = seed
        self._rate: tf.Tensor | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Those of `QSGD`."""
        return self._qsgd.capabilities

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"bits": schedule_config(self._mean), "block_size": self._block_size, "seed": self._seed}

    @property
    def adjustable(self) -> bool:
        """Yes."""
        return True

    def at_rate(self, rate: tf.Tensor) -> Self:
        """With a mean of ``rate`` times as many bits, from 2 to 8."""
        adjusted = copy.copy(self)
        adjusted._rate = rate
        return adjusted

    def min_bytes(self, spec: tf.TensorSpec) -> int:
        """Of two bits for every element."""
        elements: int = spec.shape.num_elements()
        parts = (self._qsgd.code_bytes(count, LEAST_BITS, spec.dtype) for count in (0, elements))
        return _HEADER_BYTES + sum(map(int, parts))

    def grouped_encode(
        self, xs: Sequence[tf.Tensor], states: Sequence[State], round_num: tf.Tensor
    ) -> list[tuple[Payload, State]]:
        """The bits of them all are shared out."""
        vectors = [tf.reshape(x, [-1]) for x in xs]
        extra = self._extra_bits(vectors, round_num)
        return [
            (self._mixed(values, bits, round_num), state)
            for values, bits, state in zip(vectors, extra, states, strict=True)
        ]

    def quantize(self, values: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """With all bits for this vector."""
        (extra,) = self._extra_bits([values], round_num)
        return self._mixed(values, extra, round_num)

    def _extra_bits(self, vectors: Sequence[tf.Tensor], round_num: tf.Tensor) -> list[tf.Tensor]:
        """Of each vector, beyond 2 bits for each of its elements."""
        sizes = [tf.size(values, tf.int64) for values in vectors]
        mean = tf.cast(self._mean.value(round_num), tf.float64)
        if self._rate is not None:
            mean *= tf.cast(self._rate, tf.float64)
        beyond = tf.clip_by_value(mean - LEAST_BITS, 0.0, MOST_BITS - LEAST_BITS)
        total = tf.cast(tf.round(beyond * tf.cast(tf.add_n(sizes), tf.float64)), tf.int64)
        return share_out(total, sizes, [self._energy(values) for values in vectors], _gains())

    def _energy(self, values: tf.Tensor) -> tf.Tensor:
        """The mean of ``s^2``, over the blocks; float64 scalar."""
        scales = tf.cast(block_scaling.largest(values, self._block_size), tf.float64)
        return mean_magnitude(scales * scales)

    def _mixed(self, values: tf.Tensor, extra: tf.Tensor, round_num: tf.Tensor) -> Payload:
        """The payload of a vector that has so many bits beyond 2 for each of its elements."""
        count = tf.maximum(tf.size(values, tf.int64), 1)
        bits, split = tf.cast(LEAST_BITS + extra // count, tf.int32), tf.cast(extra % count, tf.int32)

        fine, coarse = self._pair(bits)
        parts = [fine.quantize(values[:split], round_num), coarse.quantize(values[split:], round_num)]
        header = [tf.cast(bits, tf.uint8)[tf.newaxis], serialization.to_bytes(split)]
        return {
            "code": tf.concat([*header, *(part["code"] for part in parts)], axis=0),
            "values": tf.concat([part["values"] for part in parts], axis=0),
        }

    def _pair(self, bits: tf.Tensor) -> tuple[QSGD, QSGD]:
        """Of the first elements, and of the others."""
        return self._qsgd.with_bits(tf.minimum(bits + 1, MOST_BITS)), self._qsgd.with_bits(bits)

    def from_bytes(self, data: tf.Tensor, count: tf.Tensor | int, dtype: tf.DType) -> Payload:
        """Refuses a header that is none, and what `QSGD` refuses of the parts."""
        with require(tf.size(data) >= _HEADER_BYTES, "a mixed qsgd payload is too short to hold its header"):
            bits = tf.cast(data[0], tf.int32)
        split = serialization.from_bytes(data[1:_HEADER_BYTES], tf.int32)[0]
        known = (bits >= LEAST_BITS) & (bits <= MOST_BITS)
        fits = (split == 0) | ((split > 0) & (split < count) & (bits < MOST_BITS))
        with require(known & fits, "the header of a mixed qsgd payload is wrong"):
            bits, split, code = tf.identity(bits), tf.identity(split), data[_HEADER_BYTES:]
        fine, coarse = self._pair(bits)
        end = self._qsgd.code_bytes(split, tf.minimum(bits + 1, MOST_BITS), dtype)
        parts = [
            fine.from_bytes(code[:end], split, dtype),
            coarse.from_bytes(code[end:], count - split, dtype),
        ]
        return {"code": data, "values": tf.concat([part["values"] for part in parts], axis=0)}


def _gains() -> list[float]:
    """By what every further bit, from the third on, makes the squared error smaller, in units of s^2 / 6."""
    errors = [(2 ** (bits - 1) - 1) ** -2 for bits in range(LEAST_BITS, MOST_BITS + 1)]
    return [before - after for before, after in pairwise(errors)]
