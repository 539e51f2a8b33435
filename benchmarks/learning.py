"""Measures how compression affects learning: accuracy, bytes, and time to an accuracy at four link speeds.

    python -m benchmarks.learning --jobs 2          # trains missing runs, writes results/learning.md
    python -m benchmarks.learning --only Baselines  # replaces the tables whose titles begin so

The runs are those of learning.toml and learning_baselines.toml. Finished rounds are kept in the folder runs,
so that training continues after an interruption. Nothing is tuned to the data: encoders, learning rate and
model are the same for all tasks.
"""

from __future__ import annotations

import argparse
import datetime
import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.tables import code, table
from fedplug.diagnostics.environment import environment
from fedplug.tff import experiment
from fedplug.tff.experiment.report.folder import Experiment, Run, read_experiments
from fedplug.tff.experiment.report.tables import Reached, reach, summarize

HERE = Path(__file__).parent
CONFIG = HERE / "learning.toml"
BASELINES = HERE / "learning_baselines.toml"
RESULTS = HERE / "results" / "learning.md"
RUNS = Path("runs")
TIMED_ROUNDS = 30
SPEEDS = (1, 10, 100, 1000)
BELOW_DENSE = 0.01

_SYNTHETIC = ("data.source=synthetic", "data.clients=30")


class Task(NamedTuple):
    """The data, and the number of clients that take part in a round.

    Attributes:
        title: The title of the table.
        name: The name of the folder of the results.
        settings: Settings that replace those of the configuration file.
        only: Patterns of run names; empty for all runs.
        timed: Whether rounds are timed and the times to the target are shown.
        config: The configuration file with the runs.
        note: What the table shows, below it.
    """

    title: str
    name: str
    settings: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    timed: bool = True
    config: Path = CONFIG
    note: str = ""


_SLOW_SERVER = ("clients_per_round=40", "rounds=150", "server_optimizer.learning_rate=0.1")
_PLAIN_AVERAGING = (
    "`threshold` sends more where updates are larger, so its bytes follow the training. `powersgd` sends "
    "matrices of low rank: every entry gets a part of its update in every round."
)
_CLIENT_MOMENTUM = (
    "`dgc` is momentum SGD with the momentum on the clients: it reaches what the table below needs a server "
    "momentum for."
)
_SERVER_MOMENTUM = (
    "Where the server can keep the momentum, plain `topk` sends as little and needs no second client state."
)

_BOTH_WAYS = ("no compression", "auto; broadcast auto")

TASKS = (
    Task("Digits, 10 of 40 clients a round", "learning-digits"),
    Task(
        "Synthetic(1, 1), 8 of 30 clients a round",
        "learning-synthetic",
        ("clients_per_round=8", *_SYNTHETIC),
    ),
    Task(
        "Digits, all of 40 clients, 150 rounds",
        "learning-digits-all",
        ("clients_per_round=40", "rounds=150"),
        _BOTH_WAYS,
        timed=False,
    ),
    Task(
        "Synthetic(1, 1), all of 30 clients, 150 rounds",
        "learning-synthetic-all",
        ("clients_per_round=30", "rounds=150", *_SYNTHETIC),
        _BOTH_WAYS,
        timed=False,
    ),
    Task(
        "Baselines of the literature: digits, 10 of 40 clients a round",
        "learning-baselines",
        only=("no compression", "topk(0.01)", "threshold(0.01)", "powersgd(1)"),
        timed=False,
        config=BASELINES,
        note=_PLAIN_AVERAGING,
    ),
    Task(
        "Baselines of the literature: digits, all clients, server learning rate 0.1, 150 rounds",
        "learning-baselines-slow",
        (*_SLOW_SERVER, "server_optimizer.momentum=0"),
        only=("no compression", "topk(*", "dgc(*"),
        timed=False,
        config=BASELINES,
        note=_CLIENT_MOMENTUM,
    ),
    Task(
        "Baselines of the literature: the same with server momentum 0.9",
        "learning-baselines-momentum",
        (*_SLOW_SERVER, "server_optimizer.momentum=0.9"),
        only=("no compression", "topk(*"),
        timed=False,
        config=BASELINES,
        note=_SERVER_MOMENTUM,
    ),
)

_MADE = """# What compression does to learning

Made by `python -m benchmarks.learning`.

{rounds} rounds where a title does not say otherwise, {seeds} seeds; networks of about 100,000 parameters
(hidden layers of 512 and 128); plain averaging, learning rate and encoders the same for all tasks. Accuracy
is on the test examples, the mean of the last 10 rounds, with the standard deviation between seeds. "Up" and
"down" say how many times fewer bytes a client sends and gets in a round than without compression, with all
headers. The target is one point below the accuracy without compression of the same seed; times to it are of
one client: its bytes both ways on a link of that speed, and the rounds times its share of a round's seconds,
the median of {timed}. **Bold** where that is longer than without compression: there it does not pay.

"""


def train(task: Task, jobs: int) -> Experiment:
    """Trains the missing runs, and reads all of them."""
    experiment.main(
        task.config, RUNS, settings=[f"name={task.name}", *task.settings], only=task.only, jobs=jobs
    )
    (found,) = read_experiments([RUNS / task.name])
    return found


def time_rounds(task: Task) -> dict[str, float] | None:
    """The seconds of a round by run, measured in a few separate rounds, one training at a time."""
    if not task.timed:
        return None
    few = (*task.settings, f"rounds={TIMED_ROUNDS}", "repeats=1")
    found = train(task._replace(name=f"{task.name}-timed", settings=few), jobs=1)
    return {run.name: summarize(run.name, run.repeats, float("nan")).seconds for run in found.runs}


def targets(dense: Run) -> list[float]:
    """The accuracies to reach, one per seed, because the attainable accuracy differs between seeds."""
    return [summarize(dense.name, [rows], float("nan")).accuracy - BELOW_DENSE for rows in dense.repeats]


def reached(run: Run, wanted: Sequence[float]) -> list[Reached]:
    """The rounds and bytes that the run needed with each seed; empty if one seed did not reach its target."""
    each = [reach(run.name, [rows], target) for rows, target in zip(run.repeats, wanted, strict=True)]
    return each if all(seed.rounds for seed in each) else []


def times_to(needed: Sequence[Reached], clients: float, round_seconds: float) -> list[float]:
    """Mean seconds of one client at each link speed; infinite if the target was not reached."""
    if not needed:
        return [float("inf")] * len(SPEEDS)
    rounds = np.mean([seed.rounds for seed in needed])
    bits = 8 * np.mean([np.add(seed.uplink, seed.downlink) for seed in needed]) / clients
    return [float(rounds * round_seconds / clients + bits / (speed * 1e6)) for speed in SPEEDS]


def rows(found: Experiment, round_seconds: Mapping[str, float] | None) -> Iterator[list[str]]:
    """Yields the rows of a task's table, with times if the seconds of a round are known."""
    dense_bytes = float(found.dense_bytes or "nan")
    summaries = [summarize(run.name, run.repeats, dense_bytes) for run in found.runs]
    (dense,) = (pair for pair in zip(found.runs, summaries, strict=True) if pair[0].uncompressed)
    wanted = targets(dense[0])
    head = ["run", "accuracy, %", "below", "up", "down", "both ways", "rounds to target"]
    head += [f"s at {speed} Mb/s" for speed in SPEEDS if round_seconds]
    yield head
    clients = float(np.mean([row["clients"] for rows in dense[0].repeats for row in rows]))
    for run, summary in zip(found.runs, summaries, strict=True):
        needed = reached(run, wanted)
        cells = [
            "no compression" if run.uncompressed else code(run.name),
            f"{100 * summary.accuracy:.2f} ± {100 * summary.deviation:.2f}",
            f"{100 * (dense[1].accuracy - summary.accuracy):.2f}",
            f"{dense_bytes / summary.uplink:.0f}x",
            f"{dense_bytes / summary.downlink:.1f}x",
            f"{2 * dense_bytes / (summary.uplink + summary.downlink):.1f}x",
            f"{np.mean([seed.rounds for seed in needed]):.0f}" if needed else "not reached",
        ]
        if round_seconds:
            times = times_to(needed, clients, round_seconds[run.name])
            plain = times_to(reached(dense[0], wanted), clients, round_seconds[dense[0].name])
            cells += [_time(mine, other) for mine, other in zip(times, plain, strict=True)]
        yield cells


def _time(mine: float, plain: float) -> str:
    if not np.isfinite(mine):
        return ""
    text = f"{mine:.1f}"
    return f"**{text}**" if mine > plain else text


def section(task: Task, found: Experiment) -> str:
    """Returns the text below a task's title."""
    here = environment()
    machine = f"{here['processor']}, {os.cpu_count()} cores, {here['simd']}"
    parts = [f"On {datetime.date.today()}: {machine}.", table(rows(found, time_rounds(task))).rstrip()]
    parts += [textwrap.fill(task.note, 110)] if task.note else []
    return "\n\n".join(parts)


def sections_of(page: str) -> dict[str, str]:
    """Returns the text below each title of the results."""
    titled = (part.partition("\n\n") for part in page.split("\n## ")[1:])
    return {title: text.strip() for title, _, text in titled}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--only", default="", metavar="TITLE", help="replace tables whose titles begin so")
    given = parser.parse_args(arguments)
    texts = sections_of(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for task in TASKS:
        if task.title.startswith(given.only):
            texts[task.title] = section(task, train(task, given.jobs))
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    made = _MADE.format(rounds=config["rounds"], seeds=config["repeats"], timed=TIMED_ROUNDS)
    titles = (task.title for task in TASKS if task.title in texts)
    page = made + "\n\n".join(f"## {title}\n\n{texts[title]}" for title in titles) + "\n"
    RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
