"""Pictures of accuracy against cost: bytes up, bytes down, both, and rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedplug import pictures
from fedplug.experiment.byte_units import byte_unit
from fedplug.experiment.report.blocks import Block, Picture, Pictures, Table, Text
from fedplug.experiment.report.folder import Experiment, Run, read_experiments
from fedplug.experiment.report.targets import FINAL_ROUNDS, running_mean
from fedplug.experiment.report.units import amount, printable, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SIZE", "accuracy", "looks_of", "plot"]

SIZE = (5.6, 3.4)
"""Width and height of a picture in inches."""

_POINTS = 300
"""Maximum number of points of a line; more are not visible and enlarge the page."""

_LISTED = 8
"""Maximum number of a run's rounds in the table behind the pictures."""

_COSTS: Mapping[str, tuple[str, ...]] = {
    "uplink": ("uplink_bytes",),
    "downlink": ("downlink_bytes",),
    "uplink and downlink": ("uplink_bytes", "downlink_bytes"),
    "rounds": (),
}
Values = npt.NDArray[np.float64]


def plot(folder: Path, path: Path) -> None:
    """Draws test accuracy against the bytes that all clients have sent, from the folder of an experiment.

    Args:
        folder: A folder from `fedplug run`.
        path: The picture to write, ``.svg`` or ``.png``.
    """
    experiments = read_experiments([folder])
    for metric, runs, targets in _by_metric(experiments):
        look = looks_of(experiments)
        paint = partial(_paint, cost="uplink", runs=runs, looks=look, metric=metric, targets=targets)
        pictures.save(path, 8, 4.5, paint)


def accuracy(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page: for each metric four pictures and the table of their numbers."""
    looks = looks_of(experiments)
    blocks: list[Block] = []
    for metric, runs, targets in _by_metric(experiments):
        drawn = [
            Picture.drawn(
                f"{metric} against {cost}",
                f"{metric} against {cost}. At the end, {_ends(runs, cost)}.",
                SIZE,
                partial(_paint, cost=cost, runs=runs, looks=looks, metric=metric, targets=targets),
            )
            for cost in _COSTS
        ]
        blocks += [Text(_caption(runs)), Pictures(drawn, [_table(runs, metric)])]
    return blocks or [Text("The rows have no test_accuracy, so there is nothing to draw.", "notice")]


def looks_of(experiments: Sequence[Experiment]) -> dict[str, pictures.Look]:
    """Returns the look of every configured run, begun or not, by its label."""
    return pictures.looks(
        {label: uncompressed for each in experiments for label, uncompressed in each.configured.items()}
    )


def _by_metric(experiments: Sequence[Experiment]) -> Iterator[tuple[str, list[Run], list[float]]]:
    """Yields each metric in words, with its runs and targets."""
    for metric in dict.fromkeys(experiment.metric for experiment in experiments if experiment.metric):
        shown = [experiment for experiment in experiments if experiment.metric == metric]
        runs = [run for experiment in shown for run in experiment.runs]
        targets = sorted({experiment.target for experiment in shown if experiment.target})
        yield metric.replace("_", " "), runs, targets


def _paint(
    figure: Figure,
    cost: str,
    runs: Sequence[Run],
    looks: Mapping[str, pictures.Look],
    metric: str,
    targets: Sequence[float],
) -> None:
    """Draws the mean of the last rounds and seeds, and thin lines of each seed, or of single rounds."""
    axes, keys = figure.subplots(), _COSTS[cost]
    ends = []
    for run in runs:
        x, smooth, look = _sent(run, keys), _smooth(run), looks[run.label]
        thin = smooth if len(run.repeats) > 1 else _column(run, "test_accuracy")
        few = _spread(x.shape[1], logarithmic=bool(keys))
        axes.plot(x[:, few].T, thin[:, few].T, color=look.color, alpha=0.3, linewidth=0.8)
        mean_x, mean_y = x.mean(axis=0)[few], smooth.mean(axis=0)[few]
        axes.plot(mean_x, mean_y, color=look.color, linestyle=look.style, label=printable(run.label))
        ends.append((printable(run.label), mean_x[-1], mean_y[-1], look.color))
    for target in targets:
        axes.axhline(target, color=pictures.INK, linestyle=":", linewidth=1)
    if keys:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: _tick(value))
        axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel(f"{cost}, all clients together" if keys else "round")
    axes.set_ylabel(printable(metric))
    pictures.label_lines(axes, [end for end in ends if np.isfinite(end[2])])


def _spread(rounds: int, *, logarithmic: bool) -> npt.NDArray[np.intp]:
    """Returns the rounds to draw, from 0, evenly spread over the axis, including the first and the last."""
    if rounds <= _POINTS:
        return np.arange(rounds)
    even = np.geomspace(1, rounds, _POINTS) if logarithmic else np.linspace(1, rounds, _POINTS)
    shown: npt.NDArray[np.intp] = np.unique(np.round(even).astype(np.intp) - 1)
    return shown


def _caption(runs: Sequence[Run]) -> str:
    several = any(len(run.repeats) > 1 for run in runs)
    return (
        f"Bold: mean of {FINAL_ROUNDS} rounds{' and of the seeds' if several else ''}. "
        f"Thin: {'the mean of each seed' if several else 'single rounds'}. "
        "Dotted: the target, if there is one. Bytes are on logarithmic axes. The better run is to the left."
    )


def _ends(runs: Sequence[Run], cost: str) -> str:
    keys = _COSTS[cost]
    last = [(run.label, _smooth(run).mean(axis=0)[-1], _sent(run, keys)[:, -1].mean()) for run in runs]
    return "; ".join(
        f"{label}: {amount(value)} after {size(cost) if keys else f'{cost:g} rounds'}"
        for label, value, cost in last
    )


def _table(runs: Sequence[Run], metric: str) -> Table:
    rows = []
    for run in runs:
        up, down, smooth = _sent(run, ["uplink_bytes"]), _sent(run, ["downlink_bytes"]), _smooth(run)
        rounds = up.shape[1]
        for i in np.unique(np.linspace(0, rounds - 1, min(_LISTED, rounds)).round().astype(int)):
            cells = (up[:, i].mean(), down[:, i].mean(), (up + down)[:, i].mean())
            rows.append((run.label, f"{i + 1:,}", f"{smooth[:, i].mean():.4f}", *map(size, cells)))
    heads = ("run", "round", metric, "uplink", "downlink", "both")
    return Table(f"The numbers: {metric} and bytes of all clients so far", heads, rows, folded=True)


def _tick(number: float) -> str:
    scale, unit = byte_unit(number)
    return f"{number / scale:g} {unit}"


def _column(run: Run, key: str) -> Values:
    """Returns a number of every row, ``[seed, round]``, for the rounds that all seeds have."""
    rounds = min(map(len, run.repeats))
    column: list[list[Any]] = [[row[key] for row in rows[:rounds]] for rows in run.repeats]
    return np.array(column, np.float64)


def _smooth(run: Run) -> Values:
    return np.array([running_mean(values) for values in _column(run, "test_accuracy")])


def _sent(run: Run, keys: Sequence[str]) -> Values:
    """Returns the bytes of all clients until each round, ``[seed, round]``; without keys, the rounds."""
    each = [_column(run, key) for key in keys] or [np.ones_like(_column(run, "test_accuracy"))]
    return np.asarray(np.sum(each, axis=0).cumsum(axis=1), np.float64)
