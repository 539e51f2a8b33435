"""Compressing the way down too saves most of its bytes and costs little accuracy; clients skip rounds."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(load_example):
    example = load_example("compressed_broadcast")
    return example.compare(rounds=40, clients=12, clients_per_round=4, seed=0)


def test_the_accuracy_is_that_of_sending_the_model_uncompressed(results) -> None:
    accuracy = {way: np.mean(result.accuracy[-5:]) for way, result in results.items()}
    assert accuracy["sparse up"] > 0.8
    assert accuracy["sparse up, 5 bits down"] > accuracy["sparse up"] - 0.05


def test_it_takes_a_fraction_of_the_bytes_though_clients_miss_rounds(results) -> None:
    dense, eight, five = (results[f"sparse up{way}"] for way in ("", ", 8 bits down", ", 5 bits down"))
    assert five.down < dense.down / 6
    assert eight.down < dense.down / 3.7
    assert five.up == pytest.approx(dense.up, rel=0.02)


def test_the_model_of_the_clients_stays_close_to_that_of_the_server(results) -> None:
    assert 0 < results["sparse up, 5 bits down"].distance < 0.1
