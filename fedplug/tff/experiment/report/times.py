"""Time to accuracy on links of any speed.

The time of a round is its measured seconds plus the transfer time of one client's bytes: clients work in
parallel, and the mean of their bytes stands for each. A training's first round also loads and traces its
process. It counts like the median of the others, and the rest is the start-up, shown separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import fedplug.pictures as pictures
from fedplug.tff.experiment.display import MISSING, amount, printable, size
from fedplug.tff.experiment.report.blocks import Block, Picture, Pictures, Table, Text
from fedplug.tff.experiment.report.curves import SIZE, looks_of
from fedplug.tff.experiment.report.folder import Experiment, Rows, Run
from fedplug.tff.experiment.report.tables import first_round, smoothed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

__all__ = ["Cost", "costs", "pays_below", "time_to_accuracy"]

_SPEEDS = (1, 10, 100, 1000)
"""The link speeds of the table, in megabits (1e6 bits) per second."""

_BITS = 8 / 1e6  # megabits of a byte
_MODEL = (
    "Time of a round = seconds of compute + one client's bytes in both directions / speed of its link. Bytes "
    "and seconds are measured. Clients work in parallel, and the mean of their bytes stands for each. "
    "The start-up, which is the time of the first round beyond the median of the others, is not counted. "
    "Latency and the overhead of a transport are not counted either."
)
_COMPUTE = {
    "compute as measured, on one machine that trains the clients in sequence": False,
    "compute divided by the clients of a round, which train in parallel": True,
}


@dataclass(frozen=True)
class Cost:
    """The cost of a run until it reaches a target, as means of the seeds that reach it.

    Attributes:
        run: The run.
        seeds: Number of seeds that reach the target.
        rounds: Number of rounds.
        compute: Seconds of compute; 0 if no round was timed.
        traffic: Bytes that one client sends and receives.
        startup: Seconds of the first round beyond the median. None if unknown.
        clients: Mean number of clients per round.
    """

    run: Run
    seeds: int
    rounds: float
    compute: float
    traffic: float
    startup: float | None
    clients: float

    def seconds(self, speed: float, *, parallel: bool = False) -> float:
        """Returns the seconds on links of ``speed`` megabits per second."""
        return self.compute / (self.clients if parallel else 1) + _BITS * self.traffic / speed


def costs(runs: Sequence[Run], target: float) -> list[Cost]:
    """Returns the cost of every run that reaches the target with any seed."""
    found = []
    for run in runs:
        until = [(rows, end) for rows in run.repeats if (end := first_round(rows, target))]
        if until:
            found.append(
                Cost(
                    run,
                    len(until),
                    float(np.mean([end for _, end in until])),
                    float(np.mean([_seconds(rows)[:end].sum() for rows, end in until])),
                    float(np.mean([_traffic(rows)[:end].sum() for rows, end in until])),
                    _startup(run),
                    float(np.mean([row["clients"] for rows in run.repeats for row in rows])),
                )
            )
    return found


def pays_below(cost: Cost, base: Cost) -> str:
    """Returns the speeds of links at which a run is faster than another, in words."""
    slower = cost.compute - base.compute
    saved = _BITS * (base.traffic - cost.traffic)
    if slower < 0 and saved >= 0:
        return "at any speed"
    if slower >= 0 and saved <= 0:
        return "at no speed"
    return f"{'below' if saved > 0 else 'above'} {amount(saved / slower, 2)} Mb/s"


def time_to_accuracy(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page: seconds until a target against the speed of the links, and a table."""
    ranked = [experiment for experiment in experiments if experiment.more_is_better]
    runs = [run for experiment in ranked for run in experiment.runs]
    target = _target(runs, [experiment.target for experiment in ranked])
    if target is None:
        return [Text("No run has an accuracy that grows with training, so none can be reached.", "notice")]
    blocks: list[Block] = [Text(_MODEL)]
    if left_out := [each.label for each in experiments if not each.more_is_better]:
        names = ", ".join(left_out)
        blocks.append(Text(f"Left out, because lower values of their metric are better: {names}.", "notice"))
    reached = costs(runs, target)
    base = _bases(ranked, reached)
    looks = looks_of(experiments)
    drawn = [
        Picture.drawn(
            f"Seconds to {target:g}: {words}",
            f"Seconds to {target:g} against the speed of a client's link: {words}. "
            + _verdict(reached, base, parallel=parallel),
            SIZE,
            partial(_paint, reached=reached, looks=looks, parallel=parallel),
        )
        for words, parallel in _COMPUTE.items()
        if reached
    ]
    blocks.append(Text(_verdict(reached, base, parallel=False) or f"No run reaches {target:g}.", "verdict"))
    if absent := [run.label for run in runs if run.label not in {cost.run.label for cost in reached}]:
        blocks.append(Text(f"Do not reach {target:g}: {'; '.join(absent)}."))
    return [*blocks, *([Pictures(drawn)] if drawn else []), _table(reached, base, target)]


def _target(runs: Sequence[Run], configured: Sequence[float]) -> float | None:
    """Returns the first configured target, or 95 % of the highest accuracy. None if nothing was measured."""
    smooth = np.concatenate([np.zeros(0), *(smoothed(rows) for run in runs for rows in run.repeats)])
    if not np.isfinite(smooth).any():
        return None
    return next(filter(None, configured), round(0.95 * float(np.nanmax(smooth)), 2))


def _bases(experiments: Sequence[Experiment], reached: Sequence[Cost]) -> Mapping[str, Cost | None]:
    """Returns for every run the uncompressed run of its experiment, or else the first one, by label."""
    by_label = {cost.run.label: cost for cost in reached}
    plain = [[run.label for run in each.runs if run.uncompressed] for each in experiments]
    first = next((labels[0] for labels in plain if labels), "")
    return {
        run.label: by_label.get(labels[0] if labels else first)
        for experiment, labels in zip(experiments, plain, strict=True)
        for run in experiment.runs
    }


def _verdict(reached: Sequence[Cost], base: Mapping[str, Cost | None], *, parallel: bool) -> str:
    """Returns a sentence with the fastest run at every speed of the table. Empty without runs."""
    fastest: dict[str, list[str]] = {}
    for speed in _SPEEDS if reached else ():
        seconds = {cost.run.label: cost.seconds(speed, parallel=parallel) for cost in reached}
        label = min(seconds, key=seconds.__getitem__)
        plain = base[label]
        gain = seconds[plain.run.label] / seconds[label] if plain else 1.0
        than = f" ({amount(gain, 2)} times as fast as {plain.run.label})" if plain and gain > 1 else ""
        fastest.setdefault(label, []).append(f"{speed:,} Mb/s{than}")
    said = [f"{label} at {' and '.join(speeds)}" for label, speeds in fastest.items()]
    return f"Fastest: {'; '.join(said)}." if said else ""


def _paint(
    figure: Figure, reached: Sequence[Cost], looks: Mapping[str, pictures.Look], *, parallel: bool
) -> None:
    axes = figure.subplots()
    speeds = np.geomspace(_SPEEDS[0], _SPEEDS[-1], 61)
    ends = []
    for cost in reached:
        seconds = [cost.seconds(speed, parallel=parallel) for speed in speeds]
        look, name = looks[cost.run.label], printable(cost.run.label)
        axes.plot(speeds, seconds, color=look.color, linestyle=look.style, label=name)
        ends.append((name, float(speeds[-1]), seconds[-1], look.color))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(speeds[0], speeds[-1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel("speed of a client's link, both ways, Mb/s")
    axes.set_ylabel("seconds")
    pictures.label_lines(axes, ends)


def _table(reached: Sequence[Cost], base: Mapping[str, Cost | None], target: float) -> Table:
    heads = (
        "run",
        "rounds",
        "compute",
        "start-up",
        "traffic",
        *(f"{speed:,} Mb/s" for speed in _SPEEDS),
        "pays",
    )
    units = ("", "", "s", "s", "of one client", *("s",) * len(_SPEEDS), "against no compression")
    rows = []
    for cost in reached:
        seeds, other = len(cost.run.repeats), base[cost.run.label]
        some = f", {cost.seeds} of {seeds} seeds" if cost.seeds < seeds else ""
        pays = "no uncompressed run" if other is None else "" if other is cost else pays_below(cost, other)
        rows.append(
            (
                cost.run.label,
                f"{cost.rounds:g}{some}",
                amount(cost.compute) if any(map(_timed, cost.run.repeats)) else "not timed",
                MISSING if cost.startup is None else amount(cost.startup),
                size(cost.traffic),
                *(amount(cost.seconds(speed)) for speed in _SPEEDS),
                pays,
            )
        )
    return Table(f"Time to {target:g} by run", heads, rows, units, texts=(0, len(heads) - 1))


def _traffic(rows: Rows) -> npt.NDArray[np.float64]:
    """Returns the bytes of one client in every round, in both directions."""
    return np.array(
        [
            row["uplink_bytes"] / max(1, row["payloads"]) + row["downlink_bytes"] / max(1, row["clients"])
            for row in rows
        ],
        np.float64,
    )


def _seconds(rows: Rows) -> npt.NDArray[np.float64]:
    """Returns the seconds of every round. The first and untimed rounds count like the median."""
    timed = _timed(rows)
    median = float(np.median(timed)) if timed else 0.0
    seconds = [None, *(row["seconds"] for row in rows[1:])]
    return np.array([median if value is None else value for value in seconds], np.float64)


def _timed(rows: Rows) -> list[float]:
    """Returns the measured seconds of the rounds after the first."""
    return [row["seconds"] for row in rows[1:] if row["seconds"] is not None]


def _startup(run: Run) -> float | None:
    """Returns the first round's seconds beyond the median of the others, as a mean of the seeds."""
    found = [
        max(0.0, rows[0]["seconds"] - float(np.median(timed)))
        for rows in run.repeats
        if (timed := _timed(rows)) and rows[0]["seconds"] is not None
    ]
    return float(np.mean(found)) if found else None
