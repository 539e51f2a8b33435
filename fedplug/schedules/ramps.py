"""Schedules that move from one value to another over a number of rounds."""

from __future__ import annotations

import abc
import math
from typing import ClassVar

from fedplug.errors import ConfigError
from fedplug.schedules.base import Schedule, check_number, check_rounds

__all__ = ["Cosine", "Exponential", "Linear"]


class _Ramp(Schedule):
    def __init__(self, start: float, end: float, rounds: int) -> None:
        """Initializes the schedule.

        Args:
            start: The value in round 0.
            end: The value from round ``rounds`` on.
            rounds: Number of rounds from ``start`` to ``end``; with 0, every round has ``end``.

        Raises:
            ConfigError: An argument is not a number, or is out of range.
        """
        check_number(f"{self.name} start", start)
        check_number(f"{self.name} end", end)
        check_rounds(f"{self.name} rounds", rounds, 0)
        self._start, self._end, self._rounds = start, end, rounds

    @property
    def settled(self) -> int:
        return self._rounds

    def get_config(self) -> dict[str, object]:
        return {"start": self._start, "end": self._end, "rounds": self._rounds}

    def at(self, round_num: int) -> float:
        if round_num >= self._rounds:
            return float(self._end)
        return float(self._start) if round_num == 0 else self._between(round_num / self._rounds)

    @abc.abstractmethod
    def _between(self, part: float) -> float:
        """Returns the value at fraction ``part`` of the ramp, with 0 < part < 1."""


class Linear(_Ramp):
    """``start + (end - start) r / rounds`` in round r."""

    name: ClassVar[str] = "linear"

    def _between(self, part: float) -> float:
        return self._start * (1 - part) + self._end * part


class Exponential(_Ramp):
    """``start (end / start)^(r / rounds)`` in round r: the same factor every round.

    The warm-up of deep gradient compression is ``exponential(0.25, 0.001, 4)``: 25, 6.3, 1.6, 0.4, 0.1 %.
    Source: Lin et al., "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887), section 3.3.
    """

    name: ClassVar[str] = "exponential"

    def __init__(self, start: float, end: float, rounds: int) -> None:
        """Initializes the schedule like `Linear`. Both values must be above 0."""
        super().__init__(start, end, rounds)
        if start <= 0 or end <= 0:
            raise ConfigError(f"exponential start and end are {start!r} and {end!r}; both must be above 0")

    def _between(self, part: float) -> float:
        return math.exp(math.log(self._start) * (1 - part) + math.log(self._end) * part)


class Cosine(_Ramp):
    """``end + (start - end) (1 + cos(pi r / rounds)) / 2`` in round r: slow at both ends.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017 (arXiv
    1608.03983), equation 5.
    """

    name: ClassVar[str] = "cosine"

    def _between(self, part: float) -> float:
        left = (1 + math.cos(math.pi * part)) / 2
        return self._start * left + self._end * (1 - left)
