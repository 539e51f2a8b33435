"""Determines when a run reached an accuracy: by the mean of its last rounds. Single rounds are noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FINAL_ROUNDS", "Reached", "Rows", "first_rounds", "reach", "running_mean", "smoothed"]

FINAL_ROUNDS = 10
"""Number of last rounds whose mean is the accuracy in the tables. Single rounds are noisy."""

Rows = Sequence[Mapping[str, Any]]
"""The rows of a run with one seed, by round."""


class Reached(NamedTuple):
    """A run's cost of reaching an accuracy, with one number for each seed that reached it.

    Attributes:
        name: The name of the run.
        seeds: Number of seeds of the run.
        rounds: The first rounds after which the mean accuracy of the last rounds was high enough.
        uplink: Bytes that all clients had sent by then.
        downlink: Bytes that all clients had received by then.
    """

    name: str
    seeds: int
    rounds: tuple[int, ...]
    uplink: tuple[int, ...]
    downlink: tuple[int, ...]


def reach(name: str, repeats: Sequence[Rows], target: float) -> Reached:
    """Finds the round in which a run reached the accuracy ``target``, for each of the seeds.

    This is the comparison of McMahan et al., "Communication-Efficient Learning of Deep Networks from
    Decentralized Data" (2017). They use the best round so far. Here it is the mean of the last rounds,
    because a single good round can come long before the accuracy is stable.

    Args:
        name: The name of the run.
        repeats: The rows of each seed.
        target: Test accuracy, between 0 and 1.
    """
    until = [rows[:count] for rows in repeats for count in first_rounds(rows, [target])]
    return Reached(
        name=name,
        seeds=len(repeats),
        rounds=tuple(len(rows) for rows in until),
        uplink=tuple(sum(row["uplink_bytes"] for row in rows) for rows in until),
        downlink=tuple(sum(row["downlink_bytes"] for row in rows) for rows in until),
    )


def first_rounds(rows: Rows, targets: Sequence[float]) -> list[int]:
    """Returns the number of rounds until each target. The list ends before the first that was not reached.

    Args:
        rows: The rows of a run with one seed.
        targets: Accuracies in ascending order.
    """
    best = np.fmax.accumulate(smoothed(rows))
    # A mean of equal numbers can be slightly below them.
    before = [np.count_nonzero(~(best > target - 1e-9)) for target in targets]
    return [int(count) + 1 for count in before if count < len(rows)]


def smoothed(rows: Rows) -> npt.NDArray[np.float64]:
    """Returns the `running_mean` of the accuracy of a run with one seed."""
    return running_mean(np.array([row["test_accuracy"] for row in rows], np.float64))


def running_mean(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns for every round the mean of the last `FINAL_ROUNDS`, or of all if there are fewer."""
    return np.array([values[max(0, i - FINAL_ROUNDS + 1) : i + 1].mean() for i in range(len(values))])
