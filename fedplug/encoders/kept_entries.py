"""How many entries of a tensor a sparsifier keeps: a fraction, or a count. Must not know which ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from fedplug.errors import ConfigError

__all__ = ["KeptEntries"]


@dataclass(frozen=True)
class KeptEntries:
    """Exactly one of ``fraction`` and ``count`` is given; ``encoder`` is the name for errors.

    Raises:
        ConfigError: Neither or both are given, or the one given is out of range.
    """

    encoder: str
    fraction: float | None
    count: int | None

    def __post_init__(self) -> None:
        name, fraction, count = self.encoder, self.fraction, self.count
        if (fraction is None) == (count is None):
            raise ConfigError(
                f"{name} takes either a fraction or a count, for instance {name}(0.01) or {name}(count=100)"
            )
        if fraction is not None and not (_is_number(fraction) and 0 < fraction <= 1):
            raise ConfigError(f"{name} fraction is {fraction!r}; it must be above 0 and at most 1")
        if count is not None and not (isinstance(count, int) and not isinstance(count, bool) and count >= 1):
            raise ConfigError(f"{name} count is {count!r}; it must be a whole number of at least 1")

    def get_config(self) -> dict[str, float | int | None]:
        """The one argument that was given."""
        return {"count": self.count} if self.fraction is None else {"fraction": self.fraction}

    def of(self, spec: tf.TensorSpec) -> int:
        """Of n elements ``min(n, max(1, round(fraction * n)))``, or ``min(n, count)``."""
        size: int = spec.shape.num_elements()
        if self.fraction is None:
            assert self.count is not None
            return min(size, self.count)
        return min(size, max(1, math.floor(self.fraction * size + 0.5)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
