"""Uniform quantization to few bits per element: unbiased by random rounding, or to nearest."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import fedplug.ops as ops
from fedplug.encoders.arguments import MOST_LOG2_BLOCK_SIZE, check_block_size, check_seed
from fedplug.encoders.quantizers.bit_widths import LEAST_BITS, MOST_BITS, BitWidths
from fedplug.encoders.quantizers.mixed_qsgd import QSGD_HEADER_BYTES, MixedQSGD, levels_at
from fedplug.encoders.quantizers.value_form import ValueFormQuantizer
from fedplug.encoders.rate_control import Adjustable, Adjustment
from fedplug.encoders.stages import PackedSymbols
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import Array, DType, Scalar
from fedplug.registry.specs import Capabilities
from fedplug.schedules import Schedule

if TYPE_CHECKING:
    from typing import Self

__all__ = ["QSGD"]


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

    def get_config(self) -> dict[str, Any]:
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
    def value_form(self) -> Mapping[str, Any]:
        """The form with the bits of the first round. See `form_in` and `decode` for other rounds."""
        form = "nearest" if self._nearest else "qsgd"
        return {"form": form, "bits": self._widths.all[0], "block_size": self._block_size}

    def form_in(self, round_num: Scalar) -> Mapping[str, Any]:
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
            form = {**self.value_form, "bits": ops.identity(bits)}
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
