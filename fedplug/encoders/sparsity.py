"""The number of entries that a sparsifier keeps in each round."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fedplug.ops as ops
from fedplug.encoders.arguments import check_share, check_whole
from fedplug.errors import CapabilityWarning, ConfigError
from fedplug.ops.types import Scalar
from fedplug.schedules import Schedule, as_schedule, schedule_config

__all__ = ["Sparsity"]

_MOST_SIZES = 1024


@dataclass(frozen=True)
class Sparsity:
    """A fraction of the elements, which may change with the round, or a count of entries.

    >>> Sparsity("topk", 0.01, None).of_size(5000), Sparsity("topk", None, 100).of_size(5000)
    (50, 100)

    Attributes:
        encoder: The name of the sparsifier, for errors.
        fraction: A number above 0 and at most 1, a schedule of such numbers, or anything that `as_schedule`
            reads.
        count: A whole number of at least 1. Exactly one of ``fraction`` and ``count`` is given.
        rate: A scalar above 0 that multiplies the number of entries, or None. See
            `fedplug.encoders.Adjustment`.

    Raises:
        ConfigError: Neither or both are given, or the given one is out of range.
    """

    encoder: str
    fraction: float | Schedule | str | Mapping[str, object] | None
    count: int | None
    rate: Scalar | None = None

    def __post_init__(self) -> None:
        name, fraction, count = self.encoder, self.fraction, self.count
        if (fraction is None) == (count is None):
            raise ConfigError(
                f"{name} takes either a fraction or a count, for instance {name}(0.01) or {name}(count=100)"
            )
        if fraction is not None:
            if isinstance(fraction, str | Mapping):
                object.__setattr__(self, "fraction", _schedule(name, fraction))
            for round_num, value in enumerate(self._fractions):
                scheduled = isinstance(self.fraction, Schedule)
                when = f" in round {round_num} of {self.fraction!r}" if scheduled else ""
                if type(value) in (int, float) and 1 < value <= 2**63:
                    share = f"{name}({value / 100!r}) is {value:g} % of the elements, and " * (value <= 100)
                    raise ConfigError(
                        f"{name} fraction{when} is {value!r}; it must be a number above 0 and at most 1: "
                        f"{share}{name}(count={math.ceil(value)}) is a number of entries"
                    )
                check_share(f"{name} fraction{when}", value)
            if type(fraction) is int:
                warnings.warn(
                    f"{name}(1) sends every element; {name}(0.01) sends 1 % of them, {name}(count=1) one "
                    f"entry, and {name}(1.0) is all of them without this warning",
                    CapabilityWarning,
                    stacklevel=2,
                )
        if count is not None:
            check_whole(f"{name} count", count, 1)

    @functools.cached_property
    def _fractions(self) -> list[Any]:
        """The fractions of each round, up to the round from which they stay constant."""
        if isinstance(self.fraction, Schedule):
            return list(self.fraction.values())
        return [self.fraction]

    def get_config(self) -> dict[str, object]:
        """Returns the argument that was given."""
        if self.fraction is None:
            return {"count": self.count}
        fraction = self.fraction
        return {"fraction": schedule_config(fraction) if isinstance(fraction, Schedule) else fraction}

    @property
    def fixed(self) -> bool:
        """Whether the number of entries is the same in every round."""
        return self.rate is None and not isinstance(self.fraction, Schedule)

    def at_rate(self, rate: Scalar) -> Sparsity:
        """Returns a copy with the entry count scaled by ``rate``."""
        return dataclasses.replace(self, rate=rate)

    def of_size(self, size: int, round_num: Scalar = 0) -> Scalar:
        """Returns ``min(n, max(1, round(fraction * n)))`` or ``min(n, count)`` for a tensor of n elements.

        The result is a number if it is known while a graph is built, else an int32 scalar.
        """
        if self.rate is None:
            known = self._known.get(size) or self._found(size)
            return known[0] if len(known) == 1 else ops.table_lookup(known, round_num, "int32")
        entries = ops.table_lookup(self._wanted(size), round_num, "float64")
        entries = ops.minimum(ops.floor(entries * ops.astype(self.rate, "float64") + 0.5), float(size))
        return ops.minimum(ops.maximum(ops.astype(entries, "int32"), 1), size)

    def in_each_round(self, size: int) -> list[int]:
        """Returns the counts of each round at rate 1, up to the round from which they stay constant."""
        return [_at_most(size, entries) for entries in self._wanted(size)]

    @functools.cached_property
    def _known(self) -> dict[int, list[int]]:
        """A cache of `in_each_round` by size, because every encoded array needs it."""
        return {}

    def _found(self, size: int) -> list[int]:
        if len(self._known) >= _MOST_SIZES:
            self._known.clear()
        self._known[size] = self.in_each_round(size)
        return self._known[size]

    def _wanted(self, size: int) -> list[Any]:
        if self.count is not None:
            return [float(self.count)]
        return [fraction * size for fraction in self._fractions]


def _at_most(size: int, entries: float) -> int:
    return min(size, max(1, math.floor(entries + 0.5)))


def _schedule(encoder: str, fraction: str | Mapping[str, object]) -> Schedule:
    try:
        return as_schedule(fraction)
    except ConfigError as error:
        raise ConfigError(f"{encoder} fraction is {fraction!r}: {error}") from error
