"""Compressing the way down too saves most of its bytes and costs little accuracy; clients skip rounds."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(load_example):
    example = load_example("compressed_broadcast")
    return example.compare(rounds=40, clients=12, clients_per_round=4, seed=0)


def test_the_accuracy_is_that_of_sending_the_model_as_it_is(results) -> None:
    accuracy = {way: np.mean(result.accuracy[-5:]) for way, result in results.items()}
    assert accuracy["sparse up"] > 0.8
    assert accuracy["sparse up and down"] > accuracy["sparse up"] - 0.05


def test_it_takes_less_than_half_of_the_bytes_though_clients_catch_up(results) -> None:
    assert results["sparse up and down"].down < results["sparse up"].down / 2
    assert results["sparse up and down"].up == pytest.approx(results["sparse up"].up, rel=0.02)
    assert results["sparse up and down"].traffic[-1] < results["dense both ways"].traffic[-1] / 3


def test_eight_bits_save_three_quarters_though_clients_miss_rounds(results) -> None:
    assert results["sparse up, 8 bits down"].down / results["sparse up"].down < 1 / 3.7


def test_to_the_nearest_of_few_levels_is_less_than_a_sparse_broadcast(results) -> None:
    nearest, sparse = results["sparse up, 5 bits down"], results["sparse up and down"]
    assert nearest.down < sparse.down
    assert np.mean(nearest.accuracy[-5:]) > np.mean(results["sparse up"].accuracy[-5:]) - 0.05


def test_what_clients_hold_stays_close_to_the_model_of_the_server(results) -> None:
    assert 0 < results["sparse up and down"].distance < 0.1
