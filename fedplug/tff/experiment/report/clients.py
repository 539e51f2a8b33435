"""The section on clients: rounds that each client missed, and the ages of returning residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedplug.pictures as pictures
from fedplug.tff.experiment.display import MISSING, Json
from fedplug.tff.experiment.report.blocks import Block, Facts, Picture, Pictures, Table, Text
from fedplug.tff.experiment.report.curves import SIZE
from fedplug.tff.experiment.report.folder import Experiment, Rows, Run
from fedplug.tff.experiment.report.maps import Scale, height_of, paint_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Participation", "by_client", "participation"]

_LISTED = 50
"""Maximum number of clients in the table. Those that were away longest come first."""


class Participation(NamedTuple):
    """The participation of clients in rounds.

    Attributes:
        clients: The names, in descending order of participation.
        took_part: Whether a client took part, ``[client, round]``.
        age: Rounds since the client took part, ``[client, round]``, after the round. NaN before the first.
        returned: The age of the residual at every return of a client.
    """

    clients: list[str]
    took_part: npt.NDArray[np.bool_]
    age: npt.NDArray[np.float64]
    returned: npt.NDArray[np.int64]


def participation(rows: Rows) -> Participation:
    """Reads the participation from rows that have ``client_ids``."""
    sampled = [dict.fromkeys(row["client_ids"]) for row in rows]
    times: dict[str, int] = {}
    for names in sampled:
        for name in names:
            times[name] = times.get(name, 0) + 1
    clients = sorted(times, key=lambda name: (-times[name], name))
    position = {name: i for i, name in enumerate(clients)}
    took_part = np.zeros((len(clients), len(rows)), bool)
    for i, names in enumerate(sampled):
        took_part[[position[name] for name in names], i] = True
    rounds = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(took_part, rounds, -1), axis=1)
    age = np.where(last < 0, np.nan, rounds - last)
    returned = [np.diff(np.flatnonzero(row)) for row in took_part]
    return Participation(clients, took_part, age, np.concatenate([*returned, np.zeros(0, np.int64)]))


def by_client(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page. Missing data are explained in their place."""
    blocks: list[Block] = []
    for experiment in experiments:
        if len(experiments) > 1:
            blocks.append(Text(experiment.label, "heading"))
        if longest := _longest(experiment.runs):
            blocks += _of_run(experiment, *longest)
        else:
            reason = "The rows do not say which clients took part (client_ids): an older version wrote them."
            blocks.append(Text(reason, "notice"))
    return blocks


def _longest(runs: Sequence[Run]) -> tuple[Run, int, Rows] | None:
    """Returns the longest training whose rows name the clients: its run, its seed and these rows."""
    found = [
        (run, seed, [row for row in rows if _names_clients(row.get("client_ids"))])
        for run in runs
        for seed, rows in zip(run.seeds[:1], run.repeats, strict=False)
    ]
    longest = max(found, key=lambda each: len(each[2]), default=None)
    return longest if longest and longest[2] else None


def _names_clients(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _of_run(experiment: Experiment, run: Run, seed: int, rows: Rows) -> list[Block]:
    who = participation(rows)
    rounds = len(rows)
    missed = rounds - who.took_part.sum(axis=1)
    data = experiment.config.get("data")
    known = data.get("clients") if isinstance(data, dict) else None
    total = known if isinstance(known, int) and known >= len(who.clients) else None
    never = MISSING if total is None else f"{total - len(who.clients):,}"
    facts = [
        ("took part at least once", f"{len(who.clients):,}"),
        ("never took part", never),
        ("rounds missed by a client, median", f"{np.median(missed):,g} of {rounds:,}"),
        (
            "age of a residual on return, median",
            _rounds(np.median(who.returned) if who.returned.size else None),
        ),
        ("oldest on return", _rounds(who.returned.max() if who.returned.size else None)),
        ("oldest now", _rounds(who.age[:, -1].max())),
    ]
    intro = (
        f"Run {run.name}, seed {seed}: the runs of a seed sample the same clients. A residual ages while its "
        "client is not sampled: it contains what was left out of updates to a model that has changed since."
    )
    ages = Picture.drawn(
        "Rounds since each client last took part; dark when it does, blank before its first round. "
        "Clients that took part most often are at the top.",
        f"Age of every client's residual by round: {run.label}. {len(who.clients)} clients, {rounds} rounds; "
        f"the oldest: {_rounds(np.nanmax(who.age))}.",
        (SIZE[0], height_of(len(who.clients))),
        lambda figure: paint_map(
            figure.subplots(), who.age, who.clients, Scale.of([who.age], linear=True), "rounds since"
        ),
    )
    returns, numbers = _histogram(run, who)
    return [Text(intro), Facts(facts), Pictures([ages, returns], [_table(who, missed), numbers])]


def _table(who: Participation, missed: npt.NDArray[np.int64]) -> Table:
    now = who.age[:, -1]
    order = np.argsort(-now, kind="stable")[:_LISTED]
    some = (
        f", the {_LISTED} of {len(who.clients):,} that have been away longest" if len(now) > _LISTED else ""
    )
    rows = [
        (
            who.clients[i],
            f"{who.took_part[i].sum():,}",
            f"{missed[i]:,}",
            f"{int(np.nanmax(who.age[i])):,}",
            f"{now[i]:g}",
        )
        for i in order
    ]
    heads = ("client", "took part", "missed", "longest away", "age now")
    return Table(f"Rounds by client{some}", heads, rows)


def _histogram(run: Run, who: Participation) -> tuple[Picture, Table]:
    oldest = int(who.returned.max(initial=1))
    width = -(-oldest // 30)  # rounds per bar, for at most 30 bars
    edges = np.arange(0.5, oldest + width + 0.5, width)
    counts, _ = np.histogram(who.returned, edges)
    shares = 100 * counts / max(1, int(counts.sum()))
    bars = [_span(int(edge + 0.5), width) for edge in edges[:-1]]

    def paint(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        axes.bar(edges[:-1] + width / 2, shares, width=0.86 * width, color=pictures.DENSE)
        axes.set_xlabel("rounds since it last took part")
        axes.set_ylabel("% of returns")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))

    most = bars[int(np.argmax(counts))] if counts.any() else MISSING
    picture = Picture.drawn(
        "Age of a client's residual when it took part again: the age of what it then added to the model.",
        f"Age of residuals on return: {run.label}. {counts.sum()} returns; most often after {most} rounds.",
        SIZE,
        lambda figure: paint(figure.subplots()),
    )
    rows = [
        (bar, f"{count:,}", f"{share:.1f} %") for bar, count, share in zip(bars, counts, shares, strict=True)
    ]
    return picture, Table("Returns by age of the residual", ("rounds since", "returns", "share"), rows)


def _span(first: int, width: int) -> str:
    return f"{first}" if width == 1 else f"{first} to {first + width - 1}"


def _rounds(number: Json) -> str:
    return MISSING if number is None else f"{number:,g} rounds"
