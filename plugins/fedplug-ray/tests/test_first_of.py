"""More clients are asked than needed: who takes part, and what that is worth to the others."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray import on_worker
from fedplug_ray.runtime import first_of
from hypothesis import given
from hypothesis import strategies as st

from fedplug.errors import WorkerError
from fedplug.tff.runtime import Candidates

I32, F32 = np.int32, np.float32


@tff.tensorflow.computation(I32, F32)
def work(x, state):
    return tf.math.log(0.1 + tf.cast(x, tf.float32)), state + tf.cast(x, tf.float32)


@tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS), tff.FederatedType(F32, tff.CLIENTS))
def round_of(values, states):
    done = tff.federated_map(work, (values, states))
    return tff.federated_sum(done[0]), tff.federated_sum(tff.federated_value(1, tff.CLIENTS)), done[1]


def taken(order, given_up, needed, first, clients=2):
    """Returns the accepted ones of eight tasks that end in an order, some of them cancelled."""
    tasks = [first_of.Task(str(number), None) for number in range(8)]
    decides = first_of.FirstOf(tasks, [clients] * 8, needed, first)
    found, left_out = [], []
    for number in order:
        if tasks[number] not in left_out:
            more, others = decides.ended(tasks[number], number not in given_up)
            found, left_out = found + more, left_out + others
    return sorted(tasks.index(task) for task in found), decides.taken


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.integers(1, 16))
def test_the_order_of_allocation_follows_from_releases_alone(order, given_up, needed):
    well = [number for number in range(8) if number not in given_up]
    wanted = -(-needed // 2)
    preferred = [number for number in well if number < wanted]
    expected = preferred + [number for number in well if number >= wanted][: wanted - len(preferred)]
    assert taken(order, given_up, needed, "order") == (expected, 2 * len(expected))


def test_by_time_those_that_end_first_are_taken():
    assert taken([5, 2, 7, 0, 1], {2}, 5, "done") == ([0, 5, 7], 6)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("coordinators", [0, 1])
def test_the_first_of_more_candidates_have_the_bits_of_a_round_without_the_others(
    coordinators, on_ray, assert_same_bits
):
    on_ray(coordinators=coordinators, retries=0)
    zeros = [0.0] * 13
    candidates = Candidates(range(13), needed=7)
    assert_same_bits(round_of(candidates, zeros), round_of([*range(7)], zeros[:7]))
    assert candidates.took_part == [*range(7)]

    # Slices of three: clients 3 to 5 die, and 7 to 9, the first of the reserve, come in their place.
    candidates = Candidates([*range(4), on_worker(die), *range(5, 13)], needed=7)
    total, count, states = round_of(candidates, zeros)
    assert candidates.took_part == [0, 1, 2, 6, 7, 8, 9]
    assert (count, states) == (7, [float(client) for client in candidates.took_part])
    assert total == pytest.approx(np.log(np.array(candidates.took_part) + 0.1).sum(), rel=1e-5)


def test_a_round_with_too_few_clients_fails(on_ray):
    on_ray(retries=0)
    with pytest.raises(WorkerError, match="'round_of' needs 4 clients, and only 3 of 6 are done"):
        round_of(Candidates([0, 1, 2, on_worker(die), 4, on_worker(die)], needed=4), [0.0] * 6)
