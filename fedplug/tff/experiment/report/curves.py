"""Pictures of accuracy against cost: bytes up, bytes down, both, and rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedplug.pictures as pictures
from fedplug.tff.experiment.display import amount, byte_unit, printable, size
from fedplug.tff.experiment.report.blocks import Block, Picture, Pictures, Table, Text
from fedplug.tff.experiment.report.folder import Experiment, Run, read_experiments
from fedplug.tff.experiment.report.tables import FINAL_ROUNDS, smoothed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SIZE", "accuracy", "looks_of", "plot"]

SIZE = (5.6, 3.4)
"""Width and height of a picture in inches."""

_POINTS = 300
"""Maximum number of points of a line. More are not visible and enlarge the page."""

_LISTED = 8
"""Maximum number of a run's rounds in the table behind the pictures."""

_COSTS: Mapping[str, tuple[str, ...]] = {
    "uplink": ("uplink_bytes",),
    "downlink": ("downlink_bytes",),
    "uplink and downlink": ("uplink_bytes", "downlink_bytes"),
    "rounds": (),
}
Values = npt.NDArray[np.float64]


class _Curve(NamedTuple):
    """The numbers of a run, ``[seed, round]``, for the rounds that all seeds have.

    Attributes:
        label: The label of the run.
        look: The look of the run in all pictures.
        accuracy: The accuracy of each round.
        smooth: The mean of the last rounds.
        sent: The bytes of all clients until each round, or the rounds, by cost.
    """

    label: str
    look: pictures.Look
    accuracy: Values
    smooth: Values
    sent: Mapping[str, Values]


def plot(folder: Path, path: Path) -> None:
    """Draws test accuracy against the bytes that all clients have sent, from the folder of an experiment.

    Args:
        folder: A folder from `fedplug run`.
        path: The picture to write, ``.svg`` or ``.png``.
    """
    for metric, curves, targets in _by_metric(read_experiments([folder])):
        paint = partial(_paint, cost="uplink", curves=curves, metric=metric, targets=targets)
        pictures.save(path, 8, 4.5, paint)


def accuracy(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page: for each metric four pictures and the table of their numbers."""
    blocks: list[Block] = []
    for metric, curves, targets in _by_metric(experiments):
        drawn = [
            Picture.drawn(
                f"{metric} against {cost}",
                f"{metric} against {cost}. At the end, {_ends(curves, cost)}.",
                SIZE,
                partial(_paint, cost=cost, curves=curves, metric=metric, targets=targets),
            )
            for cost in _COSTS
        ]
        blocks += [Text(_caption(curves)), Pictures(drawn), _table(curves, metric)]
    return blocks or [Text("The rows have no test_accuracy, so there is nothing to draw.", "notice")]


def looks_of(experiments: Sequence[Experiment]) -> dict[str, pictures.Look]:
    """Returns the look of every configured run, begun or not, by its label."""
    return pictures.looks(
        {label: uncompressed for each in experiments for label, uncompressed in each.configured.items()}
    )


def _by_metric(experiments: Sequence[Experiment]) -> Iterator[tuple[str, list[_Curve], list[float]]]:
    """Yields each metric in words, with the curves of its runs and its targets."""
    looks = looks_of(experiments)
    for metric in dict.fromkeys(experiment.metric for experiment in experiments if experiment.metric):
        shown = [experiment for experiment in experiments if experiment.metric == metric]
        curves = [_curve(run, looks[run.label]) for experiment in shown for run in experiment.runs]
        targets = sorted({experiment.target for experiment in shown if experiment.target})
        yield metric.replace("_", " "), curves, targets


def _curve(run: Run, look: pictures.Look) -> _Curve:
    rounds = min(map(len, run.repeats))

    def column(key: str) -> Values:
        return np.array([[row[key] for row in rows[:rounds]] for rows in run.repeats], np.float64)

    measured = column("test_accuracy")
    each = {cost: [column(key) for key in keys] or [np.ones_like(measured)] for cost, keys in _COSTS.items()}
    sent = {cost: np.sum(columns, axis=0).cumsum(axis=1) for cost, columns in each.items()}
    smooth = np.array([smoothed(rows[:rounds]) for rows in run.repeats])
    return _Curve(run.label, look, measured, smooth, sent)


def _paint(
    figure: Figure, *, cost: str, curves: Sequence[_Curve], metric: str, targets: Sequence[float]
) -> None:
    """Draws the mean of the last rounds and seeds, and thin lines of each seed, or of single rounds."""
    axes, in_bytes = figure.subplots(), bool(_COSTS[cost])
    ends = []
    for curve in curves:
        x, (color, style) = curve.sent[cost], curve.look
        thin = curve.smooth if len(x) > 1 else curve.accuracy
        few = _spread(x.shape[1], logarithmic=in_bytes)
        axes.plot(x[:, few].T, thin[:, few].T, color=color, alpha=0.3, linewidth=0.8)
        mean_x, mean_y = x.mean(axis=0)[few], curve.smooth.mean(axis=0)[few]
        axes.plot(mean_x, mean_y, color=color, linestyle=style, label=printable(curve.label))
        ends.append((printable(curve.label), mean_x[-1], mean_y[-1], color))
    for target in targets:
        axes.axhline(target, color=pictures.INK, linestyle=":", linewidth=1)
    if in_bytes:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: _tick(value))
        axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel(f"{cost}, all clients together" if in_bytes else "round")
    axes.set_ylabel(printable(metric))
    pictures.label_lines(axes, [end for end in ends if np.isfinite(end[2])])


def _spread(rounds: int, *, logarithmic: bool) -> npt.NDArray[np.intp]:
    """Returns the rounds to draw, from 0, evenly spread over the axis, including the first and the last."""
    if rounds <= _POINTS:
        return np.arange(rounds)
    even = np.geomspace(1, rounds, _POINTS) if logarithmic else np.linspace(1, rounds, _POINTS)
    shown: npt.NDArray[np.intp] = np.unique(np.round(even).astype(np.intp) - 1)
    return shown


def _caption(curves: Sequence[_Curve]) -> str:
    several = any(len(curve.accuracy) > 1 for curve in curves)
    return (
        f"Bold: mean of {FINAL_ROUNDS} rounds{' and of the seeds' if several else ''}. "
        f"Thin: {'the mean of each seed' if several else 'single rounds'}. "
        "Dotted: the target, if there is one. Bytes are on logarithmic axes. The better run is to the left."
    )


def _ends(curves: Sequence[_Curve], cost: str) -> str:
    """Returns the last accuracy of each run, and its cost until then."""
    parts = []
    for curve in curves:
        reached = curve.sent[cost][:, -1].mean()
        until = size(reached) if _COSTS[cost] else f"{reached:g} rounds"
        parts.append(f"{curve.label}: {amount(curve.smooth[:, -1].mean())} after {until}")
    return "; ".join(parts)


def _table(curves: Sequence[_Curve], metric: str) -> Table:
    rows = []
    for curve in curves:
        rounds = curve.smooth.shape[1]
        for i in np.unique(np.linspace(0, rounds - 1, min(_LISTED, rounds)).round().astype(int)):
            sent = [size(curve.sent[cost][:, i].mean()) for cost in _COSTS if _COSTS[cost]]
            rows.append((curve.label, f"{i + 1:,}", f"{curve.smooth[:, i].mean():.4f}", *sent))
    heads = ("run", "round", metric, "uplink", "downlink", "both")
    return Table(f"The numbers: {metric} and bytes of all clients so far", heads, rows, folded=True)


def _tick(number: float) -> str:
    scale, unit = byte_unit(number)
    return f"{number / scale:g} {unit}"
