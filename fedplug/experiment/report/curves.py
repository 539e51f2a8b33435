"""Plots of accuracy against cost: one figure each for uplink, downlink, both, and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedplug.experiment.byte_units import byte_unit
from fedplug.experiment.report import svg
from fedplug.experiment.report.folder import Run
from fedplug.experiment.report.markup import Markup, data_table, details, element, figure, join, tabs
from fedplug.experiment.report.targets import FINAL_ROUNDS, running_mean
from fedplug.experiment.report.units import amount, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against_bytes"]

_POINTS = 300
"""Maximum number of points of a line; more are not visible and enlarge the page."""

_LISTED = 8
"""Maximum number of a run's rounds in the table behind the figures."""

_AXES: Mapping[str, tuple[str, ...]] = {
    "uplink": ("uplink_bytes",),
    "downlink": ("downlink_bytes",),
    "both": ("uplink_bytes", "downlink_bytes"),
    "rounds": (),
}
Values = npt.NDArray[np.float64]


def against_bytes(
    name: str, runs: Sequence[Run], lines: Sequence[svg.Line], metric: str, targets: Sequence[float]
) -> Markup:
    """Renders the figures, of which one is visible at a time, and the table of their numbers.

    Args:
        name: Prefix of the figures' identifiers, unique in the page.
        runs: The runs to draw. A bold line shows the mean of the last rounds (and of the seeds). Thin lines
            show single rounds or, with several seeds, the mean of each seed.
        lines: Color and style of each run.
        metric: The measured metric, in words.
        targets: Accuracies that get a thin line each.
    """
    panels = [
        (axis.capitalize(), figure(_figure(name, axis, runs, lines, metric, targets), _caption(axis, runs)))
        for axis in _AXES
    ]
    return join(
        [_legend(runs, lines), tabs(name, "Against", panels), details("The numbers", _table(runs, metric))]
    )


def _legend(runs: Sequence[Run], lines: Sequence[svg.Line]) -> Markup:
    return element(
        "ul",
        *[element("li", svg.swatch(line), run.label) for run, line in zip(runs, lines, strict=True)],
        class_="legend",
    )


def _figure(
    name: str,
    axis: str,
    runs: Sequence[Run],
    lines: Sequence[svg.Line],
    metric: str,
    targets: Sequence[float],
) -> Markup:
    keys = _AXES[axis]
    sent = [_sent(run, keys) for run in runs]
    words = {"both": "uplink and downlink"}.get(axis, axis)

    def paint(axes: Axes) -> None:
        for run, x, line in zip(runs, sent, lines, strict=True):
            _paint_run(axes, run, x, line, logarithmic=bool(keys))
        for target in targets:
            axes.axhline(target, color=svg.MUTED, linestyle=(0, (2, 3)), linewidth=1)
        if keys:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: _tick(value) if keys else f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")
        axes.set_xlabel(f"{words}, all clients together (logarithmic)" if keys else "round")
        axes.set_ylabel(metric)
        axes.grid(linewidth=0.8)
        axes.tick_params(length=0)

    last = "; ".join(
        f"{run.label}: {amount(_smooth(run).mean(axis=0)[-1])} after {_amount_sent(x[:, -1].mean(), keys)}"
        for run, x in zip(runs, sent, strict=True)
    )
    return svg.draw(f"{name}-{axis}", 430, f"{metric} against {words}", f"At the end, {last}.", paint)


def _paint_run(axes: Axes, run: Run, x: Values, line: svg.Line, *, logarithmic: bool) -> None:
    smooth = _smooth(run)
    thin = smooth if len(run.repeats) > 1 else _accuracy(run)
    few = _spread(x.shape[1], logarithmic=logarithmic)
    for each, y in zip(x, thin, strict=True):
        axes.plot(each[few], y[few], color=line.color, alpha=0.35, linewidth=1)
    axes.plot(
        x.mean(axis=0)[few], smooth.mean(axis=0)[few], color=line.color, linestyle=line.style, linewidth=2.2
    )


def _spread(rounds: int, *, logarithmic: bool) -> npt.NDArray[np.intp]:
    """Returns the rounds to draw, from 0, evenly spread over the axis, including the first and the last."""
    if rounds <= _POINTS:
        return np.arange(rounds)
    even = np.geomspace(1, rounds, _POINTS) if logarithmic else np.linspace(1, rounds, _POINTS)
    shown: npt.NDArray[np.intp] = np.unique(np.round(even).astype(np.intp) - 1)
    return shown


def _caption(axis: str, runs: Sequence[Run]) -> str:
    several = any(len(run.repeats) > 1 for run in runs)
    thin = "each seed's" if several else "single rounds"
    of_seeds = " and of the seeds" if several else ""
    where = "to the left" if axis != "rounds" else "further up"
    return (
        f"Bold: mean of {FINAL_ROUNDS} rounds{of_seeds}; thin: {thin}. Dotted: the target, if there is one. "
        f"The better run is {where}."
    )


def _table(runs: Sequence[Run], metric: str) -> Markup:
    rows = []
    for run in runs:
        up, down, smooth = _sent(run, ["uplink_bytes"]), _sent(run, ["downlink_bytes"]), _smooth(run)
        rounds = up.shape[1]
        for i in np.unique(np.linspace(0, rounds - 1, min(_LISTED, rounds)).round().astype(int)):
            cells = (up[:, i].mean(), down[:, i].mean(), (up + down)[:, i].mean())
            rows.append((run.label, f"{i + 1:,}", f"{smooth[:, i].mean():.4f}", *map(size, cells)))
    heads = ("run", "round", metric, "uplink", "downlink", "both")
    return data_table(f"{metric} and bytes of all clients so far, by run and round", heads, rows)


def _tick(number: float) -> str:
    scale, unit = byte_unit(number)
    return f"{number / scale:g} {unit}"


def _amount_sent(number: float, keys: Sequence[str]) -> str:
    return size(number) if keys else f"{number:g} rounds"


def _column(run: Run, key: str) -> Values:
    """Returns a number of every row, ``[seed, round]``, for the rounds that all seeds have."""
    rounds = min(map(len, run.repeats))
    column: list[list[Any]] = [[row[key] for row in rows[:rounds]] for rows in run.repeats]
    return np.array(column, np.float64)


def _accuracy(run: Run) -> Values:
    return _column(run, "test_accuracy")


def _smooth(run: Run) -> Values:
    return np.array([running_mean(values) for values in _accuracy(run)])


def _sent(run: Run, keys: Sequence[str]) -> Values:
    """Returns the bytes of all clients until each round, ``[seed, round]``; without keys, the rounds."""
    each = sum((_column(run, key) for key in keys), np.zeros(())) if keys else np.ones_like(_accuracy(run))
    return np.asarray(each).cumsum(axis=1)
