"""Time to accuracy on links of any speed: what the page's script adds up.

A round takes the seconds that were measured, and as long as one client's bytes take on its links: clients
work side by side, and the mean of their bytes stands for each. The first round of a training also loads and
traces its process; it counts like the median of the others, and the rest is the start-up, shown apart. Which
round reaches a target is decided here; the script only divides bytes by a speed.
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
"""Of a link, in megabits (1e6 bits) a second."""

_STEP = 0.01


def times(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """What the script needs, as JSON values.

    Returns:
        ``{"speeds": ..., "targets": [accuracy], "target": position, "runs": [...]}``; no targets: nothing was
        measured. A run has its ``label``, the position of the run that it is compared with (``against``, None
        where there is none), its mean number of ``clients`` a round, whether any round but the first was
        ``timed``, the seconds of ``startup`` (mean of the seeds, None if not known), and for each of its
        ``seeds`` lists of ``rounds``, ``seconds``, and bytes of one client ``up`` and ``down``, until each of
        the targets that it reached.
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
    """Every hundredth between the worst and the best of the runs, and what was configured."""
    smooth = np.concatenate([np.zeros(0), *(_smooth(rows) for run in runs for rows in run.repeats)])
    known = smooth[np.isfinite(smooth)]
    if not known.size:
        return []
    steps = np.arange(math.floor(known.min() / _STEP), math.floor(known.max() / _STEP + 1e-9) + 1)[-200:]
    return sorted({*(round(float(step) * _STEP, 10) for step in steps), *filter(None, configured)})


def _first_choice(targets: Sequence[float], configured: Sequence[float]) -> int:
    """The position of the configured target, or of 95 % of the highest."""
    if not targets:
        return 0
    wanted = next(filter(None, configured), 0.95 * targets[-1])
    return int(np.argmin([abs(target - wanted) for target in targets]))


def _against(experiments: Sequence[Experiment]) -> list[int | None]:
    """For every run the uncompressed one of its folder, or else the first there is."""
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
    """Seconds of every round; the first, and one that was not timed, count like the median of the others."""
    seconds = [None, *(row["seconds"] for row in rows[1:])]
    median = float(np.median(_timed(rows) or [0.0]))
    return np.array([median if each is None else each for each in seconds], np.float64)


def _startup(run: Run) -> float | None:
    """Seconds of the first round beyond the median of the others, mean of the seeds."""
    found = [
        max(0.0, rows[0]["seconds"] - float(np.median(timed)))
        for rows in run.repeats
        if (timed := _timed(rows)) and rows[0]["seconds"] is not None
    ]
    return round(float(np.mean(found)), 3) if found else None


def _timed(rows: Rows) -> list[float]:
    """Measured seconds of the rounds after the first."""
    return [row["seconds"] for row in rows[1:] if row["seconds"] is not None]


def _listed(values: npt.NDArray[np.float64], digits: int) -> list[float]:
    return [int(value) if digits == 0 else value for value in np.round(values, digits).tolist()]


def _clients(run: Run) -> float:
    return float(np.mean([row["clients"] for rows in run.repeats for row in rows]))


def _smooth(rows: Rows) -> npt.NDArray[np.float64]:
    return running_mean(np.array([row["test_accuracy"] for row in rows], np.float64))
