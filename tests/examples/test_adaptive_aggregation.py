"""Weights by divergence beat plain averaging where some clients are noise, with a choice in every round."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(load_example):
    return load_example("adaptive_aggregation").compare(
        "topk(0.1)", rounds=24, seed=0, ways=("plain", "chosen, cold")
    )


def test_the_choice_is_made_in_every_round_and_goes_both_ways(results) -> None:
    assert not any(results["plain"].adaptive)
    assert 3 < sum(results["chosen, cold"].adaptive) < 21


def test_chosen_by_the_loss_it_ends_above_plain_averaging(results) -> None:
    plain, chosen = (np.mean(results[name].accuracy[-10:]) for name in ("plain", "chosen, cold"))
    assert chosen > plain + 0.01
