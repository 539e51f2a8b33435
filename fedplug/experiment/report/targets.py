"""When a run reached an accuracy: by the mean of its last rounds, since one round's is noisy.

Knows rows of the metrics log, and nothing of how they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FINAL_ROUNDS", "Reached", "Rows", "first_rounds", "reach", "running_mean"]

FINAL_ROUNDS = 10
"""The accuracy in the tables is the mean over this many last rounds: one round's is noisy."""

Rows = Sequence[Mapping[str, Any]]
"""The rows of a run with one seed, by round."""


class Reached(NamedTuple):
    """What a run needed to reach an accuracy; one number for each of the seeds that did.

    Attributes:
        name: Of the run.
        seeds: How many the run was made with.
        rounds: The first after which the mean accuracy of the last rounds was high enough.
        uplink: Bytes that all clients together had sent by then.
        downlink: Bytes that all clients together had received by then.
    """

    name: str
    seeds: int
    rounds: tuple[int, ...]
    uplink: tuple[int, ...]
    downlink: tuple[int, ...]


def reach(name: str, repeats: Sequence[Rows], target: float) -> Reached:
    """Finds the round in which a run reached the accuracy ``target``, for each of the seeds.

    The comparison of McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
    Data" (2017). They take the best round so far; here it is the mean of the last ones, since one lucky round
    can come long before its accuracy is held.

    Args:
        name: Of the run.
        repeats: Its rows with each of the seeds.
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
    """After how many rounds each target was reached; the list ends before the first that was not.

    Args:
        rows: Of a run with one seed.
        targets: Accuracies in ascending order.
    """
    accuracy = running_mean(np.array([row["test_accuracy"] for row in rows], np.float64))
    best = np.fmax.accumulate(accuracy)
    # A mean of equal numbers can be a bit below them.
    before = [np.count_nonzero(~(best > target - 1e-9)) for target in targets]
    return [int(count) + 1 for count in before if count < len(rows)]


def running_mean(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For every round the mean of the last `FINAL_ROUNDS`, of all while there are fewer."""
    return np.array([values[max(0, i - FINAL_ROUNDS + 1) : i + 1].mean() for i in range(len(values))])
