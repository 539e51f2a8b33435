"""Uniform quantization to few bits per element: equal for all tensors (`QSGD`), or a mean (`MixedQSGD`)."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import fedplug.ops as ops
from fedplug.encoders.arguments import MOST_LOG2_BLOCK_SIZE, check_block_size, check_number, check_seed
from fedplug.encoders.assignment import Adjustable, Adjustment
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import Array, DType, Scalar, Spec, ValueForm, ValueOptions
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule, as_schedule, schedule_config

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["LEAST_BITS", "MOST_BITS", "QSGD", "BitWidths", "MixedQSGD", "levels_at", "share_out"]

LEAST_BITS, MOST_BITS = 2, 8
"""Limits of the bits per element in ``qsgd``."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class BitWidths:
    """A whole number of bits, which may change with the round.

    Attributes:
        encoder: The name of the quantizer, for errors.
        bits: A whole number, a schedule of whole numbers, or anything that `as_schedule` reads. A schedule's
            values may be off by the rounding of its arithmetic.
        least: Smallest allowed bit width.
        most: Largest allowed bit width.
        hint: A hint for the error if a number is out of range.

    Raises:
        ConfigError: A number is not whole, or out of range.
    """

    encoder: str
    bits: int | Schedule
    least: int
    most: int
    hint: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.bits, str | Mapping):
            object.__setattr__(self, "bits", self._schedule(self.bits))
        if not isinstance(self.bits, Schedule):
            if not isinstance(self.bits, int) or isinstance(self.bits, bool) or not self._in_range(self.bits):
                raise ConfigError(f"{self.encoder} bits is {self.bits!r}; it must be {self._wanted()}")
            return
        for round_num, value in enumerate(self.bits.values()):
            if abs(value - round(value)) > _ROUNDING or not self._in_range(round(value)):
                raise ConfigError(
                    f"{self.encoder} bits is {value!r} in round {round_num} of {self.bits!r}; it must be "
                    f"{self._wanted()} in every round, as those of step([8, 4], [10]) are"
                )

    def _schedule(self, bits: str | Mapping[str, object]) -> Schedule:
        try:
            return as_schedule(bits)
        except ConfigError as error:
            raise ConfigError(f"{self.encoder} bits is {bits!r}: {error}") from error

    def _in_range(self, bits: int) -> bool:
        return self.least <= bits <= self.most

    def _wanted(self) -> str:
        return f"a whole number from {self.least} to {self.most}{self.hint}"

    def get_config(self) -> object:
        """Returns the bits as a JSON value."""
        return schedule_config(self.bits) if isinstance(self.bits, Schedule) else self.bits

    @functools.cached_property
    def in_each_round(self) -> list[int]:
        """Returns the bits of each round, up to the round from which they stay constant."""
        if isinstance(self.bits, Schedule):
            return [round(value) for value in self.bits.values()]
        return [self.bits]

    @functools.cached_property
    def all(self) -> list[int]:
        """The bit widths of all rounds, ascending."""
        return sorted(set(self.in_each_round))

    def of(self, round_num: Scalar) -> Array | int:
        """Returns the bits of a round: a number if all rounds have the same, else an int32 scalar."""
        table = self.in_each_round
        if len(table) == 1:
            return table[0]
        return ops.table_lookup(table, round_num, "int32")


def share_out(
    total: Array, sizes: Sequence[Scalar], energies: Sequence[Scalar], gains: Sequence[float]
) -> list[Array]:
    """Returns the number of bits that each tensor gets beyond its minimum.

    An element of tensor t with i bits more than the minimum has the expected squared error ``energies[t] * (c
    - gains[0] - ... - gains[i - 1])``. If the gains fall, as they do for all quantizers in use, the greedy
    way is optimal: each bit goes to the tensor whose error it reduces most, for all elements of the tensor,
    until all bits are spent. Only the last tensor may get a bit for some of its elements.

    Source: Fox, "Discrete Optimization via Marginal Analysis", Management Science 13(3), 1966; for quantizers
    Gersho and Gray, "Vector Quantization and Signal Compression", 1992, section 8.4, and Shoham and Gersho,
    "Efficient Bit Allocation for an Arbitrary Set of Quantizers", IEEE TASSP 36(9), 1988.

    Args:
        total: Number of bits, an int64 scalar. Bits beyond the maximum of all tensors are not spent.
        sizes: Number of elements of each tensor.
        energies: The energy of each tensor. float64 scalars, 0 or more. Tensors of equal energy are served in
            order.
        gains: Positive, falling numbers. One for each bit that an element can have beyond the minimum.

    Returns:
        The bits of each tensor, an int64 scalar, at most ``len(gains)`` times its size.
    """
    steps = len(gains)
    counts = ops.repeat(ops.stack([ops.astype(size, "int64") for size in sizes]), steps)
    each = ops.stack(energies)
    by_bit = ops.reshape(each, [-1, 1]) * ops.asarray(gains, like=each)
    worth = ops.reshape(by_bit, [-1])
    order = ops.argsort_descending(worth)  # of equal ones the first comes first
    wanted = ops.take(counts, order)
    spent_before = ops.cumulative_sum(wanted)
    given = ops.clip(total - spent_before, ops.zeros_like(wanted), wanted)
    shared = ops.segment_sum(given, order // steps, len(energies))
    return [shared[tensor] for tensor in range(len(energies))]


_MIXED_HEADER_BYTES = 5
QSGD_HEADER_BYTES = 2


def levels_at(count: Array | int, block_size: int, dtype: DType) -> Array | int:
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
        at = _MIXED_HEADER_BYTES + QSGD_HEADER_BYTES - 1
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

    def get_config(self) -> dict[str, object]:
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
            ops.size(body) >= _MIXED_HEADER_BYTES, "a mixed qsgd payload is too short to hold its header"
        ):
            bits = ops.astype(body[0], "int32")
        count = ops.num_elements(spec)
        split = ops.from_bytes(body[1:_MIXED_HEADER_BYTES], "int32")[0]
        known = (bits >= LEAST_BITS) & (bits <= MOST_BITS)
        fits = (split == 0) | ((split > 0) & (split < count) & (bits < MOST_BITS))
        with ops.require(known & fits, "the header of a mixed qsgd payload is wrong"):
            bits, split, code = ops.identity(bits), ops.identity(split), body[_MIXED_HEADER_BYTES:]
        finer = ops.minimum(bits + 1, MOST_BITS)
        end = self._qsgd_bytes(split, finer, spec.dtype)
        values = [
            ops.decode_values(code[:end], split, **self._form(finer), dtype=spec.dtype),
            ops.decode_values(code[end:], count - split, **self._form(bits), dtype=spec.dtype),
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
        return _MIXED_HEADER_BYTES + sum(map(int, sizes))

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
            ops.encode_values(part, **self._form(width), seed=seed)
            for part, width in ((values[:split], ops.minimum(bits + 1, MOST_BITS)), (values[split:], bits))
        ]
        header = [ops.to_bytes(ops.astype(bits, "uint8")), ops.to_bytes(split)]
        return {"code": ops.concat([*header, *codes])}

    def _form(self, bits: Array) -> ValueOptions:
        return {"form": "qsgd", "bits": bits, "block_size": self._block_size}

    def _qsgd_bytes(self, count: Array | int, bits: Array | int, dtype: DType) -> Array | int:
        """Returns the size of the "qsgd/1" form of ``count`` values; a number, or a scalar."""
        size: Array | int = levels_at(count, self._block_size, dtype) + ops.packed_size(count, bits)
        return size


def _gains() -> list[float]:
    """Returns how much every bit from the third on reduces the squared error, in units of s^2 / 6."""
    errors = [(2 ** (bits - 1) - 1) ** -2 for bits in range(LEAST_BITS, MOST_BITS + 1)]
    return [before - after for before, after in pairwise(errors)]


class QSGD(ValueFormQuantizer, Adjustable):
    """Rounds every element to one of ``2 L + 1`` evenly spaced levels, ``L = 2^(bits-1) - 1``.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("qsgd(3)").encode(np.float32([3, -1.5, 0]))
    >>> fedplug.decode(payload)
    array([ 3., -2.,  0.], dtype=float32)
    >>> payload, _ = fedplug.codec("qsgd(rounding='nearest')").encode(np.float32([127, -2.4, 0]))
    >>> fedplug.decode(payload)
    array([127.,  -2.,   0.], dtype=float32)

    With the block's largest magnitude as ``scale`` and ``y = L x / scale``, the level is ``floor(y)`` or
    ``floor(y) + 1``, the latter with probability ``y - floor(y)``. So the expectation is ``x``, and the error
    is below ``scale / L``. The random numbers depend on the seed, the round and the values (see
    `fedplug.ops.dither`): equal calls give equal bits. With ``rounding="nearest"`` the level is the nearest
    to ``y``, ties to even. That is biased and halves the largest error. Receivers need not know the rounding.

    Source: Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-Efficient SGD via Gradient
    Quantization and Encoding", NIPS 2017 (arXiv 1610.02132), section 3, with the buckets and the scaling by
    the maximum of section 4. Levels have a fixed number of bits instead of Elias codes.
    To nearest: Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", ICLR
    2022 (arXiv 2110.02861), section 2, with evenly spaced levels.

    Wire form "qsgd/1" (docs/wire-format.md): ``bits / 8 + itemsize / block_size`` bytes per element: 1.008
    for 8 bits of float32.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "qsgd"
    wire_id: ClassVar[str] = "qsgd/1"

    def __init__(
        self,
        bits: int | Schedule = 8,
        *,
        block_size: int = 512,
        seed: int = 0,
        rounding: Literal["random", "nearest"] = "random",
    ) -> None:
        """Makes the quantizer.

        Args:
            bits: Bits per element, 2 to 8, or a schedule of bit widths.
            block_size: Number of elements that share a scale, a power of two.
            seed: The seed of the random numbers, 0 to 2^31 - 1.
            rounding: "random" or "nearest".

        Raises:
            ConfigError: An argument is out of range.
        """
        hint = " (for one bit an element, use sign)"
        self._widths = BitWidths("qsgd", bits, LEAST_BITS, MOST_BITS, hint)
        check_block_size("qsgd", block_size)
        check_seed("qsgd", seed)
        if rounding not in ("random", "nearest"):
            raise ConfigError(f"qsgd rounding is {rounding!r}; it must be 'random' or 'nearest'")
        self._block_size = block_size
        self._nearest = rounding == "nearest"
        self.seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased with random rounding."""
        return Capabilities(
            unbiased=not self._nearest,
            needs_seed=not self._nearest,
            sends_every_entry=True,
            fixed_size=not isinstance(self._widths.bits, Schedule),
            decode_copies=0,
            executes_on=self.executes_on,
        )

    def get_config(self) -> dict[str, object]:
        config = {"bits": self._widths.get_config(), "block_size": self._block_size, "seed": self.seed}
        return {**config, "rounding": "nearest"} if self._nearest else config

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Reads the bit width and block size from the start of the code."""
        if len(code) < QSGD_HEADER_BYTES:
            raise PayloadError("a qsgd payload is too short to hold its bits and block size")
        bits, log2_block_size = int(code[0]), int(code[1])
        if not LEAST_BITS <= bits <= MOST_BITS or log2_block_size > MOST_LOG2_BLOCK_SIZE:
            raise PayloadError(
                f"a qsgd payload has {bits} bits and blocks of 2^{log2_block_size}; there are {LEAST_BITS} "
                f"to {MOST_BITS} bits and blocks of at most 2^{MOST_LOG2_BLOCK_SIZE}"
            )
        quantizer: Self = _configured(cls, bits, 2**log2_block_size)
        return quantizer

    @property
    def value_form(self) -> ValueOptions:
        """The form with the bits of the first round. See `form_in` and `decode` for other rounds."""
        form: ValueForm = "nearest" if self._nearest else "qsgd"
        return {"form": form, "bits": self._widths.all[0], "block_size": self._block_size}

    def form_in(self, round_num: Scalar) -> ValueOptions:
        if len(self._widths.all) == 1:
            return self._form
        return {**self._form, "bits": self._widths.of(round_num)}

    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Decodes with the bit width in the payload, if some round has it."""
        if len(self._widths.all) == 1:
            return super().decode(code, count, dtype)
        with ops.require(ops.size(code) > 0, "a qsgd payload is too short to hold its bits"):
            bits = ops.astype(code[0], "int32")
        known = ops.any(bits == ops.asarray(self._widths.all, like=bits))
        with ops.require(
            known, f"a qsgd payload was not made with the bits of any round, {self._widths.all}"
        ):
            form: ValueOptions = {**self.value_form, "bits": ops.identity(bits)}
        return ops.decode_values(code, count, **form, dtype=dtype)

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols | None:
        """Returns where the levels are. None if bit widths change, because entropy coders need them."""
        if len(self._widths.all) > 1:
            return None
        return PackedSymbols(levels_at(count, self._block_size, dtype), count, self._widths.all[0])

    def adjustment(self) -> Adjustment:
        """Returns `MixedQSGD`, whose bits rate control allocates across tensors."""
        return MixedQSGD(self._widths.bits, block_size=self._block_size, seed=self.seed)


@functools.lru_cache(maxsize=(MOST_BITS - LEAST_BITS + 1) * (MOST_LOG2_BLOCK_SIZE + 1))
def _configured(kind: type[QSGD], bits: int, block_size: int) -> Any:
    """Returns a cached quantizer: a receiver meets few configurations, and reads one from every payload."""
    return kind(bits, block_size=block_size)
