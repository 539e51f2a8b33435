"""The number of bits that a quantizer writes per element in each round."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fedplug.ops as ops
from fedplug.errors import ConfigError
from fedplug.ops.types import Scalar
from fedplug.schedules import Schedule, as_schedule, schedule_config

__all__ = ["LEAST_BITS", "MOST_BITS", "BitWidths"]

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
    bits: Any
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

    def _schedule(self, bits: str | Mapping[str, Any]) -> Schedule:
        try:
            return as_schedule(bits)
        except ConfigError as error:
            raise ConfigError(f"{self.encoder} bits is {bits!r}: {error}") from error

    def _in_range(self, bits: int) -> bool:
        return self.least <= bits <= self.most

    def _wanted(self) -> str:
        return f"a whole number from {self.least} to {self.most}{self.hint}"

    def get_config(self) -> Any:
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

    def of(self, round_num: Scalar) -> Scalar:
        """Returns the bits of a round: a number if all rounds have the same, else an int32 scalar."""
        table = self.in_each_round
        if len(table) == 1:
            return table[0]
        return ops.table_lookup(table, round_num, "int32")
