"""Six of twenty clients attack: the mean fails, robust aggregators hold, on compressed updates."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def accuracy(load_example):
    """Of the last round, by aggregator."""
    results = load_example("robust_aggregation").compare(
        rounds=12,
        seed=0,
        encoder="float16",
        aggregators=("mean", "median", "multi-Krum"),
        attacks=("flipped, times 4",),
    )
    return {name: by_attack["flipped, times 4"].accuracy[-1] for name, by_attack in results.items()}


@pytest.mark.slow
def test_under_attack_the_mean_learns_nothing(accuracy) -> None:
    assert accuracy["mean"] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["median", "multi-Krum"])
def test_robust_aggregators_learn_all_the_same(accuracy, name) -> None:
    assert accuracy[name] > 0.6
