"""States belong to a rank, in files and in torch.distributed.checkpoint."""

from __future__ import annotations

import io

import pytest
import rank_state_jobs
import torch
from digits import assert_same
from fedplug_torch import OuterStep
from fedplug_torch.rank_state import RankState, part_of

from fedplug.errors import StateError

KINDS = pytest.mark.parametrize("make", [rank_state_jobs.a_hook, rank_state_jobs.an_outer_step])


@KINDS
def test_the_state_of_another_rank_is_refused(two_ranks, make):
    own, error = two_ranks.run(rank_state_jobs.load_the_state_of_rank_0, make)
    assert own is None
    assert error.startswith(
        "StateError: the state is of rank 0, and this is rank 1; every rank loads its own"
    )
    assert ("join()" in error) == (make is rank_state_jobs.an_outer_step)


@pytest.mark.parametrize(
    ("make", "make_new"),
    [
        (rank_state_jobs.a_hook, rank_state_jobs.a_new_hook),
        (rank_state_jobs.an_outer_step, rank_state_jobs.a_new_outer_step),
    ],
)
def test_a_checkpoint_of_torch_distributed_restores_a_new_object_of_each_rank(
    two_ranks, make, make_new, tmp_path
):
    residuals = []
    for before, after in two_ranks.run(rank_state_jobs.into_a_new_object, make, make_new, tmp_path):
        assert_same(before, after)
        residuals.append({key.partition("/")[2]: before[key] for key in before if "residual" in key})
    one, other = residuals
    assert one.keys() == other.keys() != set()
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_a_new_outer_step_says_that_a_checkpoint_lacks_its_message(two_ranks, tmp_path):
    for error in two_ranks.run(rank_state_jobs.while_a_message_is_in_transit, tmp_path):
        assert error.startswith("StateError: the state lacks the message that was in transit")


def test_states_of_ranks_can_be_joined_and_saved():
    states = [RankState({"x": torch.tensor(rank)}, rank) for rank in range(3)]
    assert states[1]["x"] == states[1]["rank 1/x"] == 1
    with pytest.raises(KeyError, match="'y'"):
        states[1]["y"]
    buffer = io.BytesIO()
    torch.save(states[0] | states[1] | states[2], buffer)
    buffer.seek(0)
    saved = torch.load(buffer)
    assert [part_of(saved, rank, "")["x"].item() for rank in range(3)] == [0, 1, 2]
    with pytest.raises(StateError, match="is of rank 0, 1, 2, and this is rank 3"):
        part_of(saved, 3, "")


def test_a_state_of_a_rank_is_refused_without_torch_distributed():
    outer = OuterStep(torch.nn.Linear(9, 8), "topk(0.1)", inner_steps=1)
    of_a_rank = RankState(outer.state_dict(), 0)
    with pytest.raises(StateError, match=r"of rank 0, and this is a process without torch\.distributed"):
        outer.load_state_dict(of_a_rank)
    outer.join(of_a_rank)
