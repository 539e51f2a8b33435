"""Adding updates up as they arrive takes the memory of a few of them, whatever their number."""

from __future__ import annotations

import pytest

SIZE, CLIENTS = 1_000_000, 100  # 4 MB an update


@pytest.fixture(scope="module")
def example(load_example):
    return load_example("streaming_sum")


def test_memory_does_not_grow_with_the_number_of_clients(example) -> None:
    assert example.measure_apart("as they arrive", CLIENTS, SIZE) < 60


def test_the_obvious_way_holds_them_all_so_the_measurement_would_show_it(example) -> None:
    assert example.measure_apart("decode, then add", CLIENTS, SIZE) > 300
