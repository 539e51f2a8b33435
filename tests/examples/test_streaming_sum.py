"""Adding updates up as they arrive takes one accumulator, whatever their number."""

from __future__ import annotations

import pytest

SIZE = 2_000_000  # 8 MB an update


@pytest.fixture(scope="module")
def growth(load_example):
    """By how much the peak memory of a way grows from 10 clients to 60, as a ratio."""
    example = load_example("streaming_sum")

    def of(way):
        few, many = (example.measure_apart(way, clients, SIZE) for clients in (10, 60))
        return many / few

    return of


def test_memory_does_not_grow_with_the_number_of_clients_of_a_process(growth) -> None:
    assert growth("in a process") < 1.1


def test_the_obvious_way_holds_them_all_so_the_measurement_would_show_it(growth) -> None:
    assert growth("decode, then add") > 1.3
