"""The numbers of the page, each against a slow and obvious reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.tff.experiment.display import amount, byte_unit, shortened, size
from fedplug.tff.experiment.report.folder import Experiment, Run, read_experiments
from fedplug.tff.experiment.report.tables import FINAL_ROUNDS, reach, running_mean
from fedplug.tff.experiment.report.tensors import tensor_numbers
from fedplug.tff.experiment.report.times import Cost, costs, pays_below, time_to_accuracy

accuracies = st.lists(st.integers(0, 10).map(lambda tenth: tenth / 10), min_size=1, max_size=25)


def rows_of(values: list[float]) -> list[dict[str, object]]:
    return [
        {
            "test_accuracy": value,
            "uplink_bytes": 100 + i,
            "downlink_bytes": 1000,
            "clients": 4,
            "payloads": 2,
            "seconds": {0: 100.0, 3: None}.get(i, 0.5 + i),  # a start-up, and an interruption
        }
        for i, value in enumerate(values)
    ]


def experiment_of(*runs: Run) -> Experiment:
    configured = {run.label: run.uncompressed for run in runs}
    return Experiment(
        "x", runs, (), "test_accuracy", True, None, (), {"target_accuracy": 0.5}, {}, [], configured
    )


@settings(max_examples=100)
@given(accuracies)
def test_a_running_mean_is_that_of_the_last_rounds(values) -> None:
    expected = [
        math.fsum(values[max(0, i - FINAL_ROUNDS) : i]) / min(i, FINAL_ROUNDS)
        for i in range(1, len(values) + 1)
    ]
    assert running_mean(np.array(values)) == pytest.approx(expected)


@settings(max_examples=100)
@given(st.lists(accuracies, min_size=1, max_size=3))
def test_a_cost_has_the_bytes_of_one_client_and_the_seconds_until_the_target(repeats) -> None:
    rows = tuple(map(rows_of, repeats))
    found = costs([Run("a", "a", tuple(range(len(rows))), rows, True)], 0.5)
    ends = [(each, reach("a", [each], 0.5).rounds) for each in rows]
    until = [(each, end[0]) for each, end in ends if end]
    assert len(found) == bool(until)
    for cost in found:
        assert (cost.seeds, cost.clients) == (len(until), 4)
        assert cost.rounds == pytest.approx(np.mean([end for _, end in until]))
        expected = [sum(row["uplink_bytes"] / 2 + 250 for row in each[:end]) for each, end in until]
        assert cost.traffic == pytest.approx(np.mean(expected))
        seconds = [
            [median_of(each) if row["seconds"] in (None, 100) else row["seconds"] for row in each]
            for each in rows
        ]
        compute = [sum(seconds[rows.index(each)][:end]) for each, end in until]
        assert cost.compute == pytest.approx(np.mean(compute))
        starts = [100 - median_of(each) for each in rows if len(each) > 1]
        assert cost.startup == (pytest.approx(np.mean(starts)) if starts else None)
        assert cost.seconds(8) == pytest.approx(cost.compute + cost.traffic / 1e6)
        assert cost.seconds(8, parallel=True) == pytest.approx(cost.compute / 4 + cost.traffic / 1e6)


def median_of(rows: list[dict[str, object]]) -> float:
    timed = [row["seconds"] for row in rows[1:] if row["seconds"] is not None]
    return float(np.median(timed)) if timed else 0.0


def cost_of(name: str, compute: float, traffic: float) -> Cost:
    return Cost(Run(name, name, (0,), ([],), False), 1, 1.0, compute, traffic, None, 1.0)


@pytest.mark.parametrize(
    ("compute", "traffic", "words"),
    [
        (3.0, 1e6, "below 7.0 Mb/s"),  # 2 s longer, 14 megabits fewer
        (0.5, 1e6, "at any speed"),
        (3.0, 5e6, "at no speed"),
        (0.5, 5e6, "above 36 Mb/s"),
    ],
)
def test_a_run_pays_where_it_is_faster_than_the_other(compute, traffic, words) -> None:
    run, plain = cost_of("a", compute, traffic), cost_of("b", 1.0, 2.75e6)
    assert pays_below(run, plain) == words
    verdict, _, speed = words.partition(" ")
    at = float(speed.split()[0]) if verdict in ("below", "above") else 1.0
    faster = [run.seconds(each) < plain.seconds(each) for each in (at * 0.9, at * 1.1)]
    assert faster == {"below": [True, False], "above": [False, True]}.get(verdict, [speed == "any speed"] * 2)


@pytest.mark.needs("matplotlib")
def test_a_run_is_compared_with_the_uncompressed_one_of_its_folder_or_else_the_first() -> None:
    def run(name: str, *, uncompressed: bool) -> Run:
        return Run(name, name, (0,), (rows_of([0.5]),), uncompressed)

    def against(*experiments: Experiment) -> list[str]:
        table = time_to_accuracy(experiments)[-1]
        return [row[-1] for row in table.rows]

    plain = experiment_of(run("a", uncompressed=False), run("b", uncompressed=True))
    other = experiment_of(run("c", uncompressed=True), run("d", uncompressed=False))
    without = experiment_of(run("e", uncompressed=False))
    assert against(plain, other, without) == ["at no speed", "", "", "at no speed", "at no speed"]
    assert against(without) == ["no uncompressed run"]


def test_metrics_of_tensors_are_means_of_seeds_and_bytes_of_one_client(make_folder) -> None:
    (experiment,) = read_experiments([make_folder(rounds=6, repeats=2, last={"top-k 1 %": 4})])
    run = experiment.runs[1]
    found = tensor_numbers(experiment, run)
    assert found is not None
    assert found.names == list(experiment.tensors)
    kernel = found.names.index("dense/kernel")
    of_kernel = [[row["tensors"]["dense/kernel"] for row in rows] for rows in run.repeats]
    residuals = [[each["residual_ratio"] for each in seed] for seed in of_kernel]
    assert found.losses(kernel) == pytest.approx(
        (
            np.mean([[each["nmse"] for each in seed] for seed in of_kernel]),
            np.mean(residuals),
            np.mean([seed[-1] for seed in residuals]),
        )
    )
    without = [name for i, name in enumerate(found.names) if math.isnan(found.losses(i)[1])]
    assert without == ["conv2d/bias", "logits/bias"]  # uncompressed
    assert kernel in found.largest(1)
    split = found.split([kernel])
    first = run.repeats[0][0]["tensors"]["dense/kernel"]
    assert split.parts == tuple(first[key] / 5 for key in ("header_bytes", "index_bytes", "value_bytes"))
    assert split.bound == pytest.approx(first["entropy_bytes"] / 5)
    whole = found.split(range(len(found.names)))
    assert whole.sent == pytest.approx(run.repeats[0][0]["uplink_bytes"] / 5)


def test_a_bound_is_known_only_if_that_of_every_tensor_is(make_folder) -> None:
    (experiment,) = read_experiments([make_folder(rounds=2)])
    run = experiment.runs[1]
    run.repeats[0][1]["tensors"]["dense/bias"]["entropy_bytes"] = None
    found = tensor_numbers(experiment, run)
    assert found is not None
    assert math.isnan(found.split(range(6)).bound)
    assert math.isfinite(found.split([found.names.index("dense/kernel")]).bound)


def test_numbers_are_written_for_people() -> None:
    assert [size(n) for n in (0, 5, 999, 1234, 1_060_889, 42_854_400, 7e12)] == [
        *["0 B", "5 B", "999 B", "1.23 kB", "1.06 MB", "42.9 MB", "7.00 TB"]
    ]
    assert [amount(x) for x in (None, math.nan, 0, 1234567, -0.01234, 1e-7)] == [
        *["–", "–", "0", "1,234,567", "-0.0123", "1.00e-07"]  # noqa: RUF001
    ]
    assert byte_unit(1e6) == (1e6, "MB")
    assert shortened("a" * 9, 9) == "a" * 9
    assert shortened("a\x00bc defgh", 6) == "a�bc…"
