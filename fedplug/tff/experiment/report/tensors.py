"""The section on tensors: bytes by part beside the entropy bound, the loss and the residual of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedplug.pictures as pictures
from fedplug.tff.experiment.display import MISSING, Json, amount, shortened, size
from fedplug.tff.experiment.report.blocks import Block, Picture, Pictures, Table, Text
from fedplug.tff.experiment.report.curves import SIZE
from fedplug.tff.experiment.report.folder import Experiment, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PARTS", "Split", "TensorNumbers", "by_tensor", "tensor_numbers"]

_SHOWN = 40
"""Maximum number of tensors of a run to show. Those that sent most come first."""

_PART_COLORS = ("#8b949e", "#12959f", "#b662cf")  # of no run in the pictures beside it, as far as possible
Values = npt.NDArray[np.float64]

PARTS = {"header_bytes": "header", "index_bytes": "indices", "value_bytes": "values"}
"""The parts of a payload, by the keys of the rows."""
_KEYS = ("uplink_bytes", *PARTS, "entropy_bytes", "nmse", "residual_ratio")
_LARGE = 1e300
_OF_TENSORS = (
    "NMSE is the loss by compression: squared error of the decoded update, divided by the squared norm of "
    "the original. 0 is lossless, and 1 is the error of sending nothing. The norm of the residual that a "
    "client keeps is divided by that of its update. If the last round is far above the mean, the residual "
    "grows: more is left out than is ever sent."
)


def by_tensor(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page. Missing data are explained in their place."""
    blocks: list[Block] = []
    measured: list[TensorNumbers] = []
    for experiment in experiments:
        found = {run.label: tensor_numbers(experiment, run) for run in experiment.runs}
        measured += [each for each in found.values() if each]
        if without := [label for label, each in found.items() if not each]:
            blocks.append(
                Text(
                    f"No metrics of tensors for {', '.join(without)}: set tensor_metrics = true at the top "
                    "of the configuration to measure them.",
                    "notice",
                )
            )
    return [*blocks, *_split(measured)] if measured else blocks


def _split(measured: Sequence[TensorNumbers]) -> list[Block]:
    """Returns the picture of all runs, their table, and a table of the tensors of each."""
    totals = [(each.run.label, each.split(range(len(each.names)))) for each in measured]
    heads = ("sent", *PARTS.values(), "entropy bound", "above it")
    picture = Picture.drawn(
        "Bytes of one client and round, as shares of the total. The vertical line marks where the bar would "
        "end if indices and values were at their entropy bound.",
        "Share of header, indices and values in what a client sent. "
        + "; ".join(f"{label}: {', '.join(_shares(split))}" for label, split in totals)
        + ".",
        (SIZE[0], 1.0 + 0.4 * len(totals)),
        lambda figure: _paint_split(figure.subplots(), totals),
    )
    rows = [(label, *_cells(split)) for label, split in totals]
    return [
        Pictures([picture]),
        Table("Bytes of one client and round, by part", ("run", *heads), rows),
        Text(_OF_TENSORS),
        *(_table(each, heads) for each in measured),
    ]


def _table(each: TensorNumbers, heads: Sequence[str]) -> Table:
    shown = each.largest(_SHOWN)
    rows = [
        (each.names[i], *_cells(each.split([i])), *(amount(number, 2) for number in each.losses(i)))
        for i in shown
    ]
    total = len(each.names)
    some = f", the {len(shown)} of {total} tensors that sent most" if total > len(shown) else ""
    caption = f"Bytes of one client and round, and the loss, by tensor: {each.run.label}{some}"
    losses = ("NMSE", "residual / update", "in the last round")
    return Table(caption, ("tensor", *heads, *losses), rows, folded=True)


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
    places = range(len(totals))
    begin = np.zeros(len(totals))
    for part, (name, color) in enumerate(zip(PARTS.values(), _PART_COLORS, strict=True)):
        shares = np.array([100 * split.parts[part] / (split.sent or 1.0) for _, split in totals])
        axes.barh(places, shares, left=begin, height=0.56, color=color, label=name)
        begin += shares
    for place, (_, split) in enumerate(totals):
        axes.text(101.5, place, size(split.sent), va="center", ha="left")
        if np.isfinite(split.bound):
            at = 100 * (split.bound + split.parts[0]) / (split.sent or 1.0)
            axes.plot([at, at], [place - 0.42, place + 0.42], color=pictures.INK, linewidth=2)
    axes.set_yticks(places, [shortened(label, 26) for label, _ in totals])
    axes.set_ylim(len(totals) - 0.4, -0.6)
    axes.set_xlim(0, 116)
    axes.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1), ncols=3, frameon=False)


class Split(NamedTuple):
    """Bytes of one client and round.

    Attributes:
        parts: Bytes of header, indices and values.
        bound: The entropy bound of indices and values. NaN if unknown.
    """

    parts: tuple[float, float, float]
    bound: float

    @property
    def sent(self) -> float:
        """The sum of all parts."""
        return sum(self.parts)


class TensorNumbers(NamedTuple):
    """The metrics of a run's tensors.

    Attributes:
        run: The run.
        names: The names of the tensors, in the order of the model.
        numbers: Metrics ``[tensor, row]`` by key, with the rows of all seeds in sequence. NaN if unknown.
        payloads: Number of clients' payloads in each row.
        last: The rows that are the last of their seed.
    """

    run: Run
    names: list[str]
    numbers: Mapping[str, Values]
    payloads: Values
    last: npt.NDArray[np.intp]

    def largest(self, count: int) -> list[int]:
        """Returns the positions of the ``count`` tensors that sent most, in the order of the model."""
        sent = np.nansum(self.numbers["uplink_bytes"], axis=1)
        return sorted(np.argsort(-sent, kind="stable")[:count].tolist())

    def losses(self, tensor: int) -> tuple[float, float, float]:
        """Returns the means of NMSE and residual over update, and the latter's in the last rounds."""
        residual = self.numbers["residual_ratio"][tensor]
        nmse = self.numbers["nmse"][tensor]
        return _mean(nmse), _mean(residual), _mean(residual[self.last])

    def split(self, tensors: Sequence[int]) -> Split:
        """Returns the bytes of these tensors together, as a mean of the payloads of all known rounds."""
        rows = np.isfinite(self.numbers["uplink_bytes"]).any(axis=0)
        payloads = max(1.0, float(self.payloads[rows].sum()))
        of = {key: self.numbers[key][tensors][:, rows] for key in (*PARTS, "entropy_bytes")}
        header, index, value = (float(np.nansum(of[key])) / payloads for key in PARTS)
        return Split((header, index, value), float(of["entropy_bytes"].sum()) / payloads)


def tensor_numbers(experiment: Experiment, run: Run) -> TensorNumbers | None:
    """Reads the metrics of a run's tensors. Returns None if the rows have none."""
    rows = [row for repeat in run.repeats for row in repeat]
    tensors = [_object(row.get("tensors")) for row in rows]
    names = list(dict.fromkeys([*experiment.tensors, *(name for each in tensors for name in each)]))
    if not any(tensors):
        return None
    numbers = np.array(
        [[[_number(_object(each.get(name)).get(key)) for key in _KEYS] for name in names] for each in tensors]
    )
    return TensorNumbers(
        run=run,
        names=names,
        numbers={key: numbers[:, :, i].T for i, key in enumerate(_KEYS)},
        payloads=np.array([row["payloads"] for row in rows], np.float64),
        last=np.cumsum([len(repeat) for repeat in run.repeats]) - 1,
    )


def _mean(values: Values) -> float:
    """Returns the mean of the known numbers. NaN if there is none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) and -_LARGE < value < _LARGE else np.nan
