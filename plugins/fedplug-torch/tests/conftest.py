"""Fixtures that start the ranks of torch.distributed."""

import functools

import pytest
import torch
from ranks import Ranks, one_rank

torch.set_num_threads(1)  # as in the ranks: the number of threads changes the bits of sums


@pytest.fixture(scope="session")
def start():
    """Starts a number of ranks, or returns those started before."""
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


@pytest.fixture
def four_ranks(start):
    return start(4)


@pytest.fixture(name="one_rank")
def _one_rank():
    with one_rank():
        yield
