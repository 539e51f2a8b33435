"""Payloads travel in process groups of fedplug's own."""

from __future__ import annotations

import group_jobs
import pytest
import torch.distributed as dist
from fedplug_torch.process_group import OwnGroup
from ranks import Ranks

from fedplug.errors import ArgumentError


@pytest.mark.parametrize("use", [group_jobs.a_step_of_the_hook, group_jobs.an_outer_step])
def test_a_receive_that_the_program_has_posted_gets_its_own_message(two_ranks, use):
    assert two_ranks.run(group_jobs.with_a_posted_receive, use) == [[7, 8], None]


def test_a_program_may_exchange_messages_in_the_backward_pass(two_ranks):
    assert two_ranks.run(group_jobs.steps_of_a_ring, 3) == [3, 3]


def test_the_hook_takes_the_group_of_the_ddp_model(four_ranks):
    for plain, hooked in four_ranks.run(group_jobs.means_in_subgroups):
        assert plain == hooked


def test_ranks_may_be_in_different_numbers_of_groups(two_ranks):
    assert two_ranks.run(group_jobs.exchange_after_a_group_of_rank_0) == [True, True]


def test_a_delayed_outer_step_goes_on_after_a_new_start():
    two = Ranks(2)
    try:
        for exchanged in two.run(group_jobs.restart_during_a_delay):
            assert exchanged.count(True) >= 2
    finally:
        two.close()


def test_a_group_of_an_earlier_start_is_an_error_that_says_what_to_pass():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        group = OwnGroup(dist.new_group([0]))
        assert group.ranks() == [0]
        dist.destroy_process_group()
        with pytest.raises(ArgumentError, match="init_process_group"):
            group.ranks()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        with pytest.raises(ArgumentError, match=r"was destroyed.*pass process_group="):
            group.connected()
        everyone = OwnGroup()
        first = everyone.connected()
        assert everyone.connected() is first
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert everyone.connected() is not first
    finally:
        dist.destroy_process_group()
