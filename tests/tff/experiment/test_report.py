"""Tests the tables and the plot from rows of metrics, and the displayed metric."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.pictures import looks
from fedplug.tff.experiment.display import row_keys, shown_of
from fedplug.tff.experiment.report import plot, tables

ROWS = [
    {
        "run": "a",
        "round": i + 1,
        "test_accuracy": accuracy,
        "uplink_bytes": 200,
        "downlink_bytes": 6000,
        "clients": 3,
        "payloads": 2,
        "nonfinite_updates": 1,
        "seconds": None if i == 0 else 0.5,
    }
    for i, accuracy in enumerate([0.0] * 5 + [0.5] * 5 + [1.0] * 5)
]


def test_a_summary_averages_the_last_rounds_and_the_payloads_that_were_sent() -> None:
    summary = tables.summarize(
        "a", [ROWS, [{**row, "test_accuracy": 0.25} for row in ROWS]], dense_bytes=1000
    )
    assert summary == tables.Summary(
        "a",
        accuracy=0.5,  # of 0.75 and 0.25
        deviation=math.sqrt(2 * 0.25**2),
        uplink=100.0,
        ratio=10.0,
        downlink=2000.0,
        both_ways=2000 / 2100,
        seconds=0.5,
        nonfinite=30,
    )


def test_the_table_has_a_line_per_run_and_aligned_columns() -> None:
    summaries = [tables.summarize(name, [ROWS], 1000) for name in ("a", "a longer name")]
    lines = tables.aligned(tables.summary_table("", summaries)).splitlines()
    assert len(lines) == 5
    assert lines[3].split() == ["a", "0.7500", "100", "10.0x", "2,000", "1.0x", "0.500", "15"]
    assert lines[3].index("0.7500") == lines[4].index("0.7500")


def rows_with(accuracies: list[float]) -> list[dict[str, object]]:
    return [
        {**row, "round": i, "test_accuracy": accuracy}
        for i, (row, accuracy) in enumerate(zip(ROWS, accuracies, strict=False), start=1)
    ]


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.integers(0, 10), min_size=1, max_size=15), min_size=1, max_size=3),
    st.integers(1, 10),
)
def test_bytes_until_the_target_are_counted_for_every_seed_that_reaches_it(tenths, target) -> None:
    repeats = [rows_with([tenth / 10 for tenth in of_seed]) for of_seed in tenths]
    expected = []
    for of_seed in tenths:
        for n in range(1, len(of_seed) + 1):
            last = of_seed[max(0, n - tables.FINAL_ROUNDS) : n]
            if sum(last) >= target * len(last):  # in whole numbers, where nothing is rounded
                expected.append(n)
                break
    assert tables.reach("a", repeats, target / 10) == tables.Reached(
        "a",
        seeds=len(tenths),
        rounds=tuple(expected),
        uplink=tuple(200 * n for n in expected),
        downlink=tuple(6000 * n for n in expected),
    )


def test_the_table_of_a_target_says_which_runs_and_how_many_seeds_reach_it() -> None:
    reached = [
        tables.Reached("one seed", 1, (7,), (1400,), (42000,)),
        tables.Reached("all", 2, (7, 9), (1400, 1800), (42000, 54000)),
        tables.Reached("some", 3, (7, 9), (1400, 1800), (42000, 54000)),
        tables.Reached("none", 3, (), (), ()),
    ]
    lines = tables.aligned(tables.target_table("", 0.85, reached)).splitlines()
    assert lines[1].split() == ["accuracy", "0.85", "all", "clients", "all", "clients"]
    assert [re.split(r"  +", line) for line in lines[3:]] == [
        ["one seed", "7", "1,400", "42,000"],
        ["all", "8 ± 1", "1,600 ± 283", "48,000 ± 8,485"],
        ["some", "8 ± 1, 2 of 3 seeds", "1,600 ± 283", "48,000 ± 8,485"],
        ["none", "not reached"],
    ]


@pytest.mark.needs("matplotlib")
def test_the_plot_has_a_line_of_its_own_for_every_run(make_folder, tmp_path) -> None:
    runs = {f"run {i}": {"encoder": "topk(0.1)"} for i in range(20)}
    plot(make_folder(runs=runs, rounds=12, repeats=2), tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    found = looks(dict.fromkeys(runs, False))
    assert len(set(found.values())) == 20
    assert [name for name in runs if f">{name}<" not in text] == []
    assert {look.color for look in found.values()} <= set(re.findall(r"#\w{6}", text))


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["mean_squared_error", "bias"], ("test_mean_squared_error", "test_bias")),
        # The first of the many accuracies is the accuracy, unless two metrics would share a key.
        (["sparse_categorical_accuracy", "top_k_accuracy"], ("test_accuracy", "test_top_k_accuracy")),
        (["sparse_categorical_accuracy", "accuracy"], ("test_sparse_categorical_accuracy", "test_accuracy")),
    ],
)
def test_metrics_are_those_of_the_test_examples(names, keys) -> None:
    assert row_keys(names) == keys


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (["round", "test_loss", "test_accuracy"], "test_accuracy"),
        (["round", "test_loss", "test_bias"], "test_loss"),
        (["round", "uplink_bytes"], None),
    ],
)
def test_the_accuracy_or_else_the_first_metric_is_shown(keys, shown) -> None:
    assert shown_of(keys) == shown
