"""The tables of an experiment: accuracy and bytes of each run, and its cost of reaching an accuracy.

They are aligned text for the terminal, and tables of the page. A run reached an accuracy
when the mean of its last rounds did, because single rounds are noisy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedplug.tff.experiment.display import ACCURACY, in_words
from fedplug.tff.experiment.report.blocks import Block, Table, Text
from fedplug.tff.experiment.report.folder import Experiment, Rows

__all__ = [
    "FINAL_ROUNDS",
    "Reached",
    "Summary",
    "aligned",
    "first_round",
    "printed",
    "reach",
    "results",
    "running_mean",
    "smoothed",
    "summarize",
    "summary_table",
    "target_table",
]

FINAL_ROUNDS = 10
"""Number of last rounds whose mean is the accuracy in the tables. Single rounds are noisy."""


def results(experiments: Sequence[Experiment]) -> list[Block]:
    """Returns the section of the page. Missing data are explained in their place."""
    blocks: list[Block] = []
    for experiment in experiments:
        blocks += _tables(experiment)
        blocks += [Text(text, "notice") for text in _missing(experiment)]
    return blocks


def printed(experiment: Experiment) -> str:
    """Returns the tables of an experiment as text for the terminal."""
    texts = list(map(aligned, _tables(experiment)))
    if experiment.metric not in ("", ACCURACY):
        texts.append(f"accuracy: here the {in_words(experiment.metric)} on the test examples")
    return "\n\n".join(texts)


def _tables(experiment: Experiment) -> list[Table]:
    """Returns the results and, if there is a target, the costs of reaching it."""
    dense = math.nan if experiment.dense_bytes is None else experiment.dense_bytes
    summaries = [summarize(run.name, run.repeats, dense) for run in experiment.runs]
    tables = [summary_table(f"Results of {experiment.label}", summaries)]
    if target := experiment.target:
        reached = [reach(run.name, run.repeats, target) for run in experiment.runs]
        tables.append(target_table(f"Costs of {experiment.label} until its target", target, reached))
    return tables


def _missing(experiment: Experiment) -> Iterator[str]:
    if not experiment.metric:
        yield "The rows have no test_accuracy: nothing was measured on a test set."
    if experiment.dense_bytes is None:
        yield "No ratio to dense: there is no model.json. The same fedplug run adds it without training."
    if not experiment.target:
        yield "Set target_accuracy in the configuration to see what each run needs for an accuracy."


class Summary(NamedTuple):
    """One line of the table.

    Attributes:
        name: The name of the run.
        accuracy: Test accuracy, as a mean of the last rounds and of the seeds.
        deviation: Standard deviation between the seeds of the mean of the last rounds. NaN for one seed.
        uplink: Bytes sent per client and round, as a mean over the payloads of all rounds.
        ratio: Size of the uncompressed update, divided by ``uplink``.
        downlink: Bytes received per client and round, as a mean over the clients of all rounds.
        both_ways: Uncompressed bytes in both directions, divided by ``uplink + downlink``.
        seconds: Median seconds per round. NaN if no round was timed.
        nonfinite: Number of dropped updates.
    """

    name: str
    accuracy: float
    deviation: float
    uplink: float
    ratio: float
    downlink: float
    both_ways: float
    seconds: float
    nonfinite: int


def summarize(name: str, repeats: Sequence[Rows], dense_bytes: float) -> Summary:
    """Summarizes the rows of a run.

    Args:
        name: The name of the run.
        repeats: The rows of each seed.
        dense_bytes: Size of one uncompressed update in bytes. NaN if unknown.
    """
    accuracies = [np.mean([row["test_accuracy"] for row in rows[-FINAL_ROUNDS:]]) for rows in repeats]
    rows = [row for each in repeats for row in each]
    payloads = sum(row["payloads"] for row in rows)
    uplink = sum(row["uplink_bytes"] for row in rows) / payloads if payloads else float("nan")
    downlink = sum(row["downlink_bytes"] for row in rows) / sum(row["clients"] for row in rows)
    timed = [row["seconds"] for row in rows if row["seconds"] is not None]
    return Summary(
        name=name,
        accuracy=float(np.mean(accuracies)),
        deviation=float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else float("nan"),
        uplink=uplink,
        ratio=dense_bytes / uplink if uplink else math.inf,
        downlink=downlink,
        both_ways=2 * dense_bytes / (uplink + downlink) if uplink + downlink else math.inf,
        seconds=float(np.median(timed)) if timed else float("nan"),
        nonfinite=sum(row["nonfinite_updates"] for row in rows),
    )


def summary_table(caption: str, summaries: Sequence[Summary]) -> Table:
    """Formats the summaries of runs."""
    heads = ("run", "accuracy", "uplink bytes", "ratio to", "downlink bytes", "ratio", "seconds", "dropped")
    units = (
        "",
        f"last {FINAL_ROUNDS} rounds",
        "/client/round",
        "dense",
        "/client/round",
        "both ways",
        "/round",
        "updates",
    )
    rows = [
        (
            s.name,
            f"{s.accuracy:.4f}" + ("" if math.isnan(s.deviation) else f" ± {s.deviation:.4f}"),
            f"{s.uplink:,.0f}",
            f"{s.ratio:.1f}x",
            f"{s.downlink:,.0f}",
            f"{s.both_ways:.1f}x",
            f"{s.seconds:.3f}",
            f"{s.nonfinite}",
        )
        for s in summaries
    ]
    return Table(caption, heads, rows, units)


def target_table(caption: str, target: float, runs: Sequence[Reached]) -> Table:
    """Formats each run's cost of reaching the accuracy ``target``."""
    heads = ("run", "rounds to", "uplink bytes", "downlink bytes")
    units = ("", f"accuracy {target:g}", "all clients", "all clients")

    def cells(run: Reached) -> tuple[str, ...]:
        if not run.rounds:
            return run.name, "not reached", "", ""
        some = f", {len(run.rounds)} of {run.seeds} seeds" if len(run.rounds) < run.seeds else ""
        return run.name, _of_seeds(run.rounds) + some, _of_seeds(run.uplink), _of_seeds(run.downlink)

    return Table(caption, heads, [cells(run) for run in runs], units)


def _of_seeds(values: Sequence[int]) -> str:
    deviation = f" ± {np.std(values, ddof=1):,.0f}" if len(values) > 1 else ""
    return f"{np.mean(values):,.0f}{deviation}"


def aligned(table: Table) -> str:
    """Aligns columns under heads and units. The first column left, the others, numbers, right."""
    heads, units, rows = table.heads, table.units, table.rows
    widths = [max(len(row[i]) for row in [heads, units, *rows]) for i in range(len(heads))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        return "  ".join(
            [first, *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()

    return "\n".join([line(heads), line(units), rule, *map(line, rows)])


class Reached(NamedTuple):
    """A run's cost of reaching an accuracy, with one number for each seed that reached it.

    Attributes:
        name: The name of the run.
        seeds: Number of seeds of the run.
        rounds: The first rounds after which the mean accuracy of the last rounds was high enough.
        uplink: Bytes that all clients had sent by then.
        downlink: Bytes that all clients had received by then.
    """

    name: str
    seeds: int
    rounds: tuple[int, ...]
    uplink: tuple[int, ...]
    downlink: tuple[int, ...]


def reach(name: str, repeats: Sequence[Rows], target: float) -> Reached:
    """Finds the round in which a run reached the accuracy ``target``, for each of the seeds.

    This is the comparison of McMahan et al., "Communication-Efficient Learning of Deep Networks from
    Decentralized Data" (2017). They use the best round so far. Here it is the mean of the last rounds,
    because a single good round can come long before the accuracy is stable.

    Args:
        name: The name of the run.
        repeats: The rows of each seed.
        target: Test accuracy, between 0 and 1.
    """
    until = [rows[:count] for rows in repeats if (count := first_round(rows, target))]
    return Reached(
        name=name,
        seeds=len(repeats),
        rounds=tuple(len(rows) for rows in until),
        uplink=tuple(sum(row["uplink_bytes"] for row in rows) for rows in until),
        downlink=tuple(sum(row["downlink_bytes"] for row in rows) for rows in until),
    )


def first_round(rows: Rows, target: float) -> int | None:
    """Returns the number of rounds of a seed until the accuracy ``target``. None if it is not reached."""
    reached = smoothed(rows) > target - 1e-9  # a mean of equal numbers can be slightly below them
    return int(np.argmax(reached)) + 1 if reached.any() else None


def smoothed(rows: Rows) -> npt.NDArray[np.float64]:
    """Returns the `running_mean` of the accuracy of a run with one seed."""
    return running_mean(np.array([row["test_accuracy"] for row in rows], np.float64))


def running_mean(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns for every round the mean of the last `FINAL_ROUNDS`, or of all if there are fewer."""
    return np.array([values[max(0, i - FINAL_ROUNDS + 1) : i + 1].mean() for i in range(len(values))])
