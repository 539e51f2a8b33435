"""What each stack of aggregators is worth: precise, robust, or seen only as a sum, and with measurements."""

from __future__ import annotations

import pytest

NAMES = (
    "mean",
    "mean(fixed point(sum))",
    "mean(fixed point(secure sum))",
    "zeroing(clipping(mean(qsgd(8))))",
)


@pytest.fixture(scope="module")
def example(load_example):
    example = load_example("custom_aggregators")
    example.STACKS = {name: example.STACKS[name] for name in NAMES}
    return example


@pytest.fixture(scope="module")
def results(example):
    return example.compare(rounds=14, clients=6, seed=0)


def test_numbers_of_eight_bits_are_enough_once_the_server_knows_their_range(results) -> None:
    honest, _ = results["mean(fixed point(sum))"]
    assert results["mean"][0].error < 1e-6 < honest.error < 0.05
    measured = honest.measurements["mean_value"]["transform"]
    assert measured["clients"] == 6
    assert measured["range"] > 2


def test_a_secure_sum_changes_no_bit_of_the_result(results) -> None:
    for plain, secure in zip(
        results["mean(fixed point(sum))"], results["mean(fixed point(secure sum))"], strict=True
    ):
        assert secure.error == plain.error


def test_clipping_and_zeroing_around_an_encoded_sum_hold_a_broken_client_off(results) -> None:
    _, broken = results["zeroing(clipping(mean(qsgd(8))))"]
    assert results["mean"][1].error > 10
    assert broken.error < 1
    assert broken.measurements["zeroing"]["clipping"]["mean_value"]["payloads"] == 6
