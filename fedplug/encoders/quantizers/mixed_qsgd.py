"""QSGD with a mean number of bits: more for one tensor, fewer for another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import fedplug.ops as ops
from fedplug.encoders.arguments import MOST_LOG2_BLOCK_SIZE, check_block_size, check_number, check_seed
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.quantizers.bit_allocation import share_out
from fedplug.encoders.quantizers.bit_widths import LEAST_BITS, MOST_BITS
from fedplug.encoders.rate_control import Adjustable
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, DType, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule, as_schedule, schedule_config

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["MixedQSGD", "levels_at"]

_HEADER_BYTES = 5
QSGD_HEADER_BYTES = 2


def levels_at(count: Any, block_size: int, dtype: DType) -> Any:
    """Returns where the levels begin in the "qsgd/1" form of ``count`` values; a number, or a scalar."""
    return QSGD_HEADER_BYTES + ops.block_count(count, block_size) * ops.itemsize(dtype)


class MixedQSGD(Encoder, Adjustable):
    """Quantizes by ``qsgd`` with a mean number of bits over all elements of all tensors that share it.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("mixed_qsgd(2.5)").encode(np.float32([3, -3, 0, 3]))
    >>> fedplug.decode(payload)
    array([ 3., -3.,  0.,  3.], dtype=float32)

    The update decides how many bits each tensor gets. A block of n elements with the largest magnitude s and
    b bits has an expected squared error of about ``n s^2 / (6 L^2)`` with ``L = 2^(b-1) - 1``: the variance
    of rounding at random to levels ``s / L`` apart. Each bit goes where it reduces the error most, see
    `share_out`. The last tensor served gets one bit more for its first elements than for the others, so that
    all bits are spent. Every element has at least 2 bits, and so remains unbiased.

    Wire form "mixed_qsgd/1" (docs/wire-format.md): 7 bytes more than "qsgd/1", and up to one scale.
    """

    name: ClassVar[str] = "mixed_qsgd"
    wire_id: ClassVar[str] = "mixed_qsgd/1"

    def __init__(self, bits: float | Schedule = 8, *, block_size: int = 512, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            bits: The mean number of bits per element, 2 to 8, or a schedule of such numbers.
            block_size: Number of elements that share a scale, a power of two.
            seed: The seed of the random numbers, 0 to 2^31 - 1.

        Raises:
            ConfigError: An argument is out of range.
        """
        mean = as_schedule(bits)
        for value in mean.values():
            in_range = f"from {LEAST_BITS} to {MOST_BITS}"
            check_number("mixed_qsgd bits", value, lambda bits: LEAST_BITS <= bits <= MOST_BITS, in_range)
        self._mean = mean
        check_block_size("mixed_qsgd", block_size)
        check_seed("mixed_qsgd", seed)
        self._block_size = block_size
        self._seed = seed
        self._rate: Scalar | None = None

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the block size from the "qsgd/1" form."""
        del spec
        at = _HEADER_BYTES + QSGD_HEADER_BYTES - 1
        if ops.size(body) <= at or body[at] > MOST_LOG2_BLOCK_SIZE:
            raise PayloadError("a mixed qsgd payload does not say its block size, or too large a one")
        return cls(block_size=2 ** int(body[at]))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            unbiased=True,
            needs_seed=True,
            sends_every_entry=True,
            decode_copies=1,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, Any]:
        return {"bits": schedule_config(self._mean), "block_size": self._block_size, "seed": self._seed}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Spends all bits on this tensor."""
        (encoded,) = self.grouped_encode([x], [state], round_num)
        return encoded

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[tuple[Payload, State]]:
        """Allocates the bits across all tensors."""
        vectors = [ops.reshape(x, [-1]) for x in xs]
        extra = self._extra_bits(vectors, round_num)
        return [
            (self._payload(values, bits, round_num), state)
            for values, bits, state in zip(vectors, extra, states, strict=True)
        ]

    def decode(self, payload: Payload, spec: Spec) -> Array:
        if "values" not in payload:
            payload = self.from_wire(payload["code"], spec)
        return ops.reshape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        del spec
        return payload["code"]

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses an invalid header, and an invalid form of ``qsgd`` after it."""
        with ops.require(
            ops.size(body) >= _HEADER_BYTES, "a mixed qsgd payload is too short to hold its header"
        ):
            bits = ops.astype(body[0], "int32")
        count = ops.num_elements(spec)
        split = ops.from_bytes(body[1:_HEADER_BYTES], "int32")[0]
        known = (bits >= LEAST_BITS) & (bits <= MOST_BITS)
        fits = (split == 0) | ((split > 0) & (split < count) & (bits < MOST_BITS))
        with ops.require(known & fits, "the header of a mixed qsgd payload is wrong"):
            bits, split, code = ops.identity(bits), ops.identity(split), body[_HEADER_BYTES:]
        finer = ops.minimum(bits + 1, MOST_BITS)
        end = self._qsgd_bytes(split, finer, spec.dtype)
        values = [
            ops.decode_values(code[:end], split, bits=finer, dtype=spec.dtype, **self._form),
            ops.decode_values(code[end:], count - split, bits=bits, dtype=spec.dtype, **self._form),
        ]
        return {"code": body, "values": ops.concat(values)}

    def adjustment(self) -> Self:
        return self

    @property
    def encoder(self) -> Encoder:
        return self

    @property
    def adjusts(self) -> Literal["bits"]:
        return "bits"

    def at_rate(self, rate: Scalar) -> Self:
        """Returns the encoder with a mean of ``rate`` times as many bits, from 2 to 8."""
        adjusted = copy.copy(self)
        adjusted._rate = rate
        return adjusted

    def min_bytes(self, spec: Spec) -> int:
        """Returns the size with two bits for every element."""
        sizes = (self._qsgd_bytes(count, LEAST_BITS, spec.dtype) for count in (0, ops.num_elements(spec)))
        return _HEADER_BYTES + sum(map(int, sizes))

    def _extra_bits(self, vectors: Sequence[Array], round_num: Scalar) -> list[Array]:
        """Returns the bits of each vector, beyond 2 bits for each of its elements."""
        sizes = [ops.astype(ops.size(values), "int64") for values in vectors]
        mean = ops.astype(self._mean.value(round_num), "float64")
        if self._rate is not None:
            mean = mean * ops.astype(self._rate, "float64")
        beyond = ops.clip(mean - LEAST_BITS, 0.0, MOST_BITS - LEAST_BITS)
        total = ops.astype(ops.round(beyond * ops.astype(ops.add_n(sizes), "float64")), "int64")
        return share_out(total, sizes, [self._energy(values) for values in vectors], _gains())

    def _energy(self, values: Array) -> Scalar:
        """Returns the mean of ``s^2`` over the blocks, a float64 scalar."""
        scales = ops.astype(ops.block_scales(values, self._block_size), "float64")
        return ops.mean_magnitude(scales * scales)

    def _payload(self, values: Array, extra: Array, round_num: Scalar) -> Payload:
        """Returns the payload of a vector with ``extra`` bits beyond 2 for each of its elements."""
        count = ops.maximum(ops.astype(ops.size(values), "int64"), 1)
        bits, split = ops.astype(LEAST_BITS + extra // count, "int32"), ops.astype(extra % count, "int32")
        seed = ops.round_seed(self._seed, round_num)
        codes = [
            ops.encode_values(part, bits=width, seed=seed, **self._form)
            for part, width in ((values[:split], ops.minimum(bits + 1, MOST_BITS)), (values[split:], bits))
        ]
        header = [ops.to_bytes(ops.astype(bits, "uint8")), ops.to_bytes(split)]
        return {
            "code": ops.concat([*header, *codes]),
        }

    @property
    def _form(self) -> dict[str, Any]:
        return {"form": "qsgd", "block_size": self._block_size}

    def _qsgd_bytes(self, count: Any, bits: Any, dtype: DType) -> Any:
        """Returns the size of the "qsgd/1" form of ``count`` values; a number, or a scalar."""
        return levels_at(count, self._block_size, dtype) + ops.packed_size(count, bits)


def _gains() -> list[float]:
    """Returns how much every bit from the third on reduces the squared error, in units of s^2 / 6."""
    errors = [(2 ** (bits - 1) - 1) ** -2 for bits in range(LEAST_BITS, MOST_BITS + 1)]
    return [before - after for before, after in pairwise(errors)]
