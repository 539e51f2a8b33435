"""Adding updates up as they arrive takes one accumulator, whatever their number."""

from __future__ import annotations

import pytest

SIZE = 2_000_000  # 8 MB an update


@pytest.fixture(scope="module")
def peak(load_example):
    """Measures the peak memory of a way with so many clients."""
    return lambda way, clients: load_example("streaming_sum").measure_apart(way, clients, SIZE)


@pytest.fixture(scope="module")
def of_few(peak):
    return peak("in a process", 10)


def test_memory_does_not_grow_with_the_number_of_clients_of_a_process(peak, of_few) -> None:
    assert peak("in a process", 60) < 1.1 * of_few


def test_the_obvious_way_holds_them_all_so_the_measurement_would_show_it(peak, of_few) -> None:
    assert peak("decode, then add", 60) > 1.3 * of_few
