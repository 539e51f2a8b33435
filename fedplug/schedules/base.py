"""The contract of a schedule: the docstring of `Schedule`, which the conformance suite tests."""

from __future__ import annotations

import abc

from fedplug import ops
from fedplug.ops.types import Array
from fedplug.registry.component import Component

__all__ = ["MAX_ROUNDS", "Schedule"]

MAX_ROUNDS = 100_000
"""The latest round from which a schedule may stay constant: its values go into the graph as a table."""


class Schedule(Component):
    """A number that depends on the round and on nothing else.

    So a restarted run goes on with the values it would have had, and every client has the same one. An author
    writes `at` in plain Python; graphs look its values up in a table, so that they have the same bits in
    every runtime.
    """

    @property
    @abc.abstractmethod
    def settled(self) -> int:
        """The first round from which on the value stays as it is; 0 to `MAX_ROUNDS`."""

    @abc.abstractmethod
    def at(self, round_num: int) -> float:
        """The value in a round.

        Args:
            round_num: 0 or more; a process counts its rounds from 0.

        Returns:
            A finite number, the same one for the same round; from round `settled` on always the same one.
        """

    def values(self) -> list[float]:
        """The values of the rounds 0 to `settled`, all there are."""
        return [self.at(round_num) for round_num in range(self.settled + 1)]

    def value(self, round_num: Array) -> Array:
        """`at` in a graph.

        Args:
            round_num: int32 scalar; negative ones count as 0.

        Returns:
            float32 scalar, the value rounded to the nearest.
        """
        return ops.table_lookup(self.values(), round_num, "float32")
