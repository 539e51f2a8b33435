"""Time to accuracy on links of any speed: the input of the page's script.

The time of a round is its measured seconds plus the transfer time of one client's bytes: clients work in
parallel, and the mean of their bytes stands for each. A training's first round also loads and traces its
process. It counts like the median of the others, and the rest is the start-up, shown separately. The rounds
that reach a target are determined here; the script only divides bytes by a speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedplug.experiment.report.folder import Experiment, Run
from fedplug.experiment.report.targets import Rows, first_rounds, running_mean

__all__ = ["SPEEDS", "times"]

SPEEDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The link speeds, in megabits (1e6 bits) per second."""

_STEP = 0.01


def times(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """Returns the input of the script, as JSON values.

    Returns:
        ``{"speeds": ..., "targets": [accuracy], "target": position, "runs": [...]}``; without targets if
        nothing was measured. A run has its ``label`` and its mean number of ``clients`` per round.
        ``against`` is the position of the run to compare it with, or None. ``timed`` says whether any round
        but the first was timed. ``startup`` has the start-up seconds (mean of the seeds, None if unknown).
        Each of its ``seeds`` has lists with one number per reached target: the ``rounds``, the ``seconds``,
        and the bytes of one client ``up`` and ``down``.
    """
    experiments = [experiment for experiment in experiments if experiment.more_is_better]
    runs = [run for experiment in experiments for run in experiment.runs]
    targets = _targets(runs, [experiment.target for experiment in experiments])
    return {
        "speeds": SPEEDS,
        "targets": targets,
        "target": _first_choice(targets, [experiment.target for experiment in experiments]),
        "runs": [
            {
                "label": run.label,
                "against": against,
                "clients": round(_clients(run), 2),
                "timed": any(_timed(rows) for rows in run.repeats),
                "startup": _startup(run),
                "seeds": [_until(rows, targets) for rows in run.repeats],
            }
            for run, against in zip(runs, _against(experiments), strict=True)
        ],
    }


def _targets(runs: Sequence[Run], configured: Sequence[float]) -> list[float]:
    """Returns every hundredth between the lowest and the highest accuracy, and the configured targets."""
    smooth = np.concatenate([np.zeros(0), *(_smooth(rows) for run in runs for rows in run.repeats)])
    known = smooth[np.isfinite(smooth)]
    if not known.size:
        return []
    steps = np.arange(math.floor(known.min() / _STEP), math.floor(known.max() / _STEP + 1e-9) + 1)[-200:]
    return sorted({*(round(float(step) * _STEP, 10) for step in steps), *filter(None, configured)})


def _first_choice(targets: Sequence[float], configured: Sequence[float]) -> int:
    """Returns the position of the configured target, or of the one nearest to 95 % of the highest."""
    if not targets:
        return 0
    wanted = next(filter(None, configured), 0.95 * targets[-1])
    return int(np.argmin([abs(target - wanted) for target in targets]))


def _against(experiments: Sequence[Experiment]) -> list[int | None]:
    """Returns for every run the position of its folder's uncompressed run, or else of the first one."""
    found: list[int | None] = []
    runs = [run for experiment in experiments for run in experiment.runs]
    first = next((position for position, run in enumerate(runs) if run.uncompressed), None)
    for experiment in experiments:
        own = [len(found) + i for i, run in enumerate(experiment.runs) if run.uncompressed]
        found += [own[0] if own else first] * len(experiment.runs)
    return found


def _until(rows: Rows, targets: Sequence[float]) -> dict[str, list[float]]:
    rounds = first_rounds(rows, targets)
    ends = np.array(rounds, np.intp) - 1
    up = np.cumsum([row["uplink_bytes"] / max(1, row["payloads"]) for row in rows])
    down = np.cumsum([row["downlink_bytes"] / max(1, row["clients"]) for row in rows])
    seconds = np.cumsum(_seconds(rows))
    return {
        "rounds": [int(end) for end in rounds],
        "seconds": _listed(seconds[ends], 3),
        "up": _listed(up[ends], 0),
        "down": _listed(down[ends], 0),
    }


def _seconds(rows: Rows) -> npt.NDArray[np.float64]:
    """Returns the seconds of every round; the first and untimed rounds count like the median."""
    seconds = [None, *(row["seconds"] for row in rows[1:])]
    median = float(np.median(_timed(rows) or [0.0]))
    return np.array([median if each is None else each for each in seconds], np.float64)


def _startup(run: Run) -> float | None:
    """Returns the first round's seconds beyond the median of the others, as a mean of the seeds."""
    found = [
        max(0.0, rows[0]["seconds"] - float(np.median(timed)))
        for rows in run.repeats
        if (timed := _timed(rows)) and rows[0]["seconds"] is not None
    ]
    return round(float(np.mean(found)), 3) if found else None


def _timed(rows: Rows) -> list[float]:
    """Returns the measured seconds of the rounds after the first."""
    return [row["seconds"] for row in rows[1:] if row["seconds"] is not None]


def _listed(values: npt.NDArray[np.float64], digits: int) -> list[float]:
    return [int(value) if digits == 0 else value for value in np.round(values, digits).tolist()]


def _clients(run: Run) -> float:
    return float(np.mean([row["clients"] for rows in run.repeats for row in rows]))


def _smooth(rows: Rows) -> npt.NDArray[np.float64]:
    return running_mean(np.array([row["test_accuracy"] for row in rows], np.float64))
