"""The codec and the outer step take DTensors by their local shards."""

from __future__ import annotations

import functools

import numpy as np
import outer_jobs
import pytest
import shard_jobs
import streaming_jobs
import torch
from digits import assert_same
from torch.distributed.tensor import Replicate, Shard


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()], ids=str)
def test_a_shard_is_encoded_and_decoded_like_a_tensor_of_its_own(two_ranks, placement):
    first, second = two_ranks.run(shard_jobs.encode_shards, placement)
    assert (first == second) == placement.is_replicate()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Shard(1), "the state is of another shard of 'x': expected [15, 20] at"),
        (None, "does not say which shards"),
    ],
    ids=["other shards", "a whole tensor"],
)
def test_the_state_of_another_shard_is_refused(two_ranks, other, words):
    for error in two_ranks.run(shard_jobs.encode_with_the_state_of, Shard(0), other):
        assert error.startswith("StateError")
        assert words in error


def test_partial_sums_are_refused_with_what_to_pass_instead(two_ranks):
    for error in two_ranks.run(shard_jobs.encode_a_partial_sum):
        assert "tensor 'x': a DTensor with the placements (Partial(sum),)" in error
        assert "redistribute" in error


def test_parameters_that_a_forward_pass_left_whole_are_encoded_by_their_shards(four_ranks):
    assert all(four_ranks.run(shard_jobs.encode_after_a_forward_pass))


def test_an_outer_step_of_sharded_replicas_is_that_of_whole_workers(start):
    """Sharding changes only the rounding if all ranks of a replica have the same batches."""
    sharded = start(4).run(shard_jobs.train, "identity", 3)
    steps = outer_jobs.INNER_STEPS
    whole = start(2).run(streaming_jobs.train, "identity", 3 * steps, inner_steps=steps)
    for parameters, _, _ in sharded:
        assert_same(parameters, sharded[0][0])
        for name, value in whole[0]["parameters"].items():
            np.testing.assert_allclose(parameters[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_replicas_of_an_outer_step_end_with_equal_bits_and_few_bytes(four_ranks):
    results = four_ranks.run(shard_jobs.train, "topk(0.05) | qsgd(8)", 3)
    for parameters, sent, dense in results:
        assert_same(parameters, results[0][0])
        assert sent < dense / 5


@pytest.mark.parametrize(
    "optimizer",
    [None, outer_jobs.adam, functools.partial(torch.optim.SGD, lr=0.5)],
    ids=["default", "Adam", "SGD"],
)
def test_a_restarted_outer_step_goes_on_with_the_same_bits(four_ranks, optimizer):
    for whole, restarted in four_ranks.run(shard_jobs.restart_in_the_middle, optimizer):
        assert_same(whole, restarted)


def test_an_outer_step_refuses_the_state_of_another_shard(four_ranks):
    for error, unchanged in four_ranks.run(shard_jobs.load_the_state_of_another_shard):
        assert "StateError: the state is of another shard of '0.weight': expected [24, 64] at [" in error
        assert unchanged


def test_an_outer_step_of_shards_needs_the_ranks_with_the_same_shards(four_ranks):
    for missing, *wrong in four_ranks.run(shard_jobs.refused_groups):
        assert "parameter '0.weight' is a DTensor" in missing
        assert "mesh.get_group('replicate')" in missing
        assert len(wrong) == 2
        assert all("not the same on all ranks: '0.weight' is float32[24, 64] at [0, 0]" in e for e in wrong)


def test_an_outer_step_takes_any_sharding(four_ranks):
    assert all(four_ranks.run(shard_jobs.two_parallelisms))
