"""Processes that several tests use."""

import functools

import pytest
import torch
from ranks import Ranks

torch.set_num_threads(1)  # as in the ranks: sums of other numbers of threads have other bits


@pytest.fixture(scope="session")
def start():
    """Ranks, as many as are asked for; the same processes for all tests."""
    started = []

    @functools.cache
    def of(count):
        started.append(Ranks(count))
        return started[-1]

    yield of
    for ranks in started:
        ranks.close()


@pytest.fixture(params=[2, 4], ids=["2 ranks", "4 ranks"])
def ranks(request, start):
    return start(request.param)


@pytest.fixture
def two_ranks(start):
    return start(2)
