"""The section on tensors: heat maps over the rounds, and bytes by part beside the entropy bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fedplug.experiment.report import svg
from fedplug.experiment.report.folder import Experiment
from fedplug.experiment.report.heatmaps import Scale, heat_map
from fedplug.experiment.report.markup import (
    Markup,
    data_table,
    details,
    element,
    figure,
    join,
    notice,
    parts_legend,
    tabs,
)
from fedplug.experiment.report.tensor_numbers import PARTS, Split, TensorNumbers, tensor_numbers
from fedplug.experiment.report.units import MISSING, shortened, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["by_tensor"]

_SHOWN = 40
"""Maximum number of tensors of a run to show; those that sent most come first."""

Values = npt.NDArray[np.float64]


class _Metric(NamedTuple):
    """A number of every tensor and round: its key, and its names in figures and captions."""

    key: str
    name: str
    label: str
    caption: str
    absent: str = "not measured"


_METRICS = (
    _Metric(
        "uplink_bytes",
        "Bytes",
        "bytes per client",
        "Bytes that a client sent of each tensor, as a mean of the clients that sent.",
    ),
    _Metric(
        "nmse",
        "NMSE",
        "NMSE",
        "The loss by compression: squared error of the decoded update, divided by the squared norm of the "
        "original. 0 is lossless; 1 is the error of sending nothing.",
    ),
    _Metric(
        "residual_ratio",
        "Residual",
        "residual / update",
        "Norm of the residual that the client keeps, divided by the norm of its update. "
        "Flat: error feedback keeps up. Rising: more is left out than is ever sent.",
        "there is no residual",
    ),
)


def by_tensor(experiments: Sequence[Experiment]) -> Markup:
    """Renders the section; missing data are explained in their place."""
    parts: list[Markup] = []
    measured: list[TensorNumbers] = []
    for experiment in experiments:
        found = {run.label: tensor_numbers(experiment, run) for run in experiment.runs}
        measured += [each for each in found.values() if each]
        if without := [label for label, each in found.items() if not each]:
            parts.append(
                notice(
                    f"No metrics of tensors for {', '.join(without)}: set tensor_metrics = true at the top "
                    "of the configuration to measure them."
                )
            )
    if measured:
        panels = [(metric.name, _maps(metric, measured)) for metric in _METRICS]
        parts += [
            tabs("tensor-metric", "Metric of tensors", panels),
            element("h3", "Where the bytes go"),
            _split(measured),
        ]
    return join(parts)


def _maps(metric: _Metric, measured: Sequence[TensorNumbers]) -> Markup:
    """Renders a heat map for every run, all with the same scale."""
    shown = [each.largest(_SHOWN) for each in measured]
    values = [each.by_round(metric.key)[tensors] for each, tensors in zip(measured, shown, strict=True)]
    if not any(np.isfinite(each).any() for each in values):
        return notice(f"Every run: {metric.absent}.")
    scale = Scale.of(values, in_bytes=metric.key == "uplink_bytes")
    parts = [element("p", metric.caption, class_="caption")]
    for number, (each, tensors, numbers) in enumerate(zip(measured, shown, values, strict=True)):
        names = [each.names[tensor] for tensor in tensors]
        some = (
            f", the {_SHOWN} of {len(each.names)} tensors that sent most" if len(each.names) > _SHOWN else ""
        )
        if not np.isfinite(numbers).any():
            parts.append(notice(f"{each.run.label}: {metric.absent}."))
            continue
        picture = heat_map(
            f"map-{metric.key.replace('_', '-')}-{number}",
            f"{metric.label} by tensor and round: {each.run.label}",
            f"From {scale.written(np.nanmin(numbers))} to {scale.written(np.nanmax(numbers))}.",
            numbers,
            names,
            scale,
            metric.label,
            "tensors",
        )
        parts.append(
            figure(
                picture,
                each.run.label + some,
                _map_table(f"{metric.label} by tensor: {each.run.label}", names, numbers, scale),
                above=True,
            )
        )
    return join(parts)


def _map_table(caption: str, names: Sequence[str], values: Values, scale: Scale) -> Markup:
    known = np.isfinite(values)

    def cells(row: int) -> tuple[str, ...]:
        numbers = values[row][known[row]]
        if not numbers.size:
            return (MISSING,) * 4
        return tuple(
            scale.written(x) for x in (numbers.mean(), numbers[0], numbers[numbers.size // 2], numbers[-1])
        )

    rows = [(name, *cells(row)) for row, name in enumerate(names)]
    return data_table(caption, ("tensor", "mean", "first", "half-way", "last"), rows)


def _split(measured: Sequence[TensorNumbers]) -> Markup:
    """Renders the figure of all runs, and a table of the tensors of each."""
    splits = [
        [(each.names[tensor], each.split([tensor])) for tensor in each.largest(_SHOWN)]
        + [("all tensors", each.split(range(len(each.names))))]
        for each in measured
    ]
    totals = [(each.run.label, split[-1][1]) for each, split in zip(measured, splits, strict=True)]
    heads = ("sent", *PARTS.values(), "entropy bound", "above it")
    picture = svg.draw(
        "split",
        70 + 40 * len(totals),
        "Share of header, indices and values in what a client sent",
        "; ".join(f"{label}: {', '.join(_shares(split))}" for label, split in totals) + ".",
        lambda axes: _paint_split(axes, totals),
    )
    caption = (
        "Bytes of one client and round, as shares of the total. The vertical line marks where the bar would "
        "end if indices and values were at their entropy bound."
    )
    numbers = data_table(
        "Bytes of one client and round, by part",
        ("run", *heads),
        [(label, *_cells(s)) for label, s in totals],
    )
    tables = [
        details(
            f"By tensor: {each.run.label}",
            data_table(
                f"Bytes of one client and round, by tensor and part: {each.run.label}",
                ("tensor", *heads),
                [(name, *_cells(s)) for name, s in split],
            ),
        )
        for each, split in zip(measured, splits, strict=True)
    ]
    return join([parts_legend(PARTS.values()), figure(picture, caption), numbers, *tables])


def _cells(split: Split) -> tuple[str, ...]:
    payload = split.parts[1] + split.parts[2]
    above = f"{100 * (payload / split.bound - 1):+.1f} %" if payload and split.bound > 0 else MISSING
    return (size(split.sent), *map(size, split.parts), size(split.bound), above)


def _shares(split: Split) -> list[str]:
    return [
        f"{name} {100 * part / (split.sent or 1):.0f} %"
        for name, part in zip(PARTS.values(), split.parts, strict=True)
    ]


def _paint_split(axes: Axes, totals: Sequence[tuple[str, Split]]) -> None:
    for position, (_, split) in enumerate(totals):
        begin, whole = 0.0, split.sent or 1.0
        for part, color in zip(split.parts, svg.PARTS, strict=True):
            share = 100 * part / whole
            axes.barh(position, share, left=begin, height=0.56, color=color)
            begin += share
        axes.text(101.5, position, size(split.sent), va="center", ha="left")
        if np.isfinite(split.bound):
            at = 100 * (split.bound + split.parts[0]) / whole
            axes.plot([at, at], [position - 0.42, position + 0.42], color=svg.INK, linewidth=2)
    axes.set_yticks(range(len(totals)), [shortened(label, 34) for label, _ in totals])
    axes.set_ylim(len(totals) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
