"""Coordinators hand out for the driver: the same bits as without, also when somebody is killed."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray import on_worker
from fedplug_ray.runtime import rounds

import fedplug
from fedplug.errors import ConfigError, WorkerError

I32, F32 = np.int32, np.float32
STATE = tff.TensorType(F32, [50])
CLIENTS = 61  # 21 slices of three, the last of one: blocks of 8, 8 and 5


@tff.tensorflow.computation(I32, STATE)
def work(x, state):
    number = tf.cast(x, tf.float32)
    return tf.debugging.check_numerics(tf.math.log(0.1 + number), "no logarithm"), state + number


@tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS), tff.FederatedType(STATE, tff.CLIENTS))
def round_of(values, states):
    done = tff.federated_map(work, (values, states))
    return tff.federated_sum(done[0]), tff.federated_sum(tff.federated_value(1, tff.CLIENTS)), done[1]


@tff.tensorflow.computation(STATE, F32)
def shift(state, total):
    return state - total


@tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS), tff.FederatedType(STATE, tff.CLIENTS))
def two_stages(values, states):
    done = tff.federated_map(work, (values, states))
    total = tff.federated_broadcast(tff.federated_sum(done[0]))
    shifted = tff.federated_map(shift, (done[1], total))
    return tff.federated_sum(shifted), shifted


def states_of(count):
    return [np.zeros(50, F32)] * count


@pytest.fixture(
    params=[
        pytest.param([(1, 8)], id="in blocks"),
        pytest.param([], id="one by one", marks=pytest.mark.slow),
    ]
)
def few(request, monkeypatch):
    """Rounds of blocks, and rounds whose slices are handed out one by one."""
    monkeypatch.setattr(rounds, "_BLOCKS", request.param)


@pytest.fixture
def in_blocks(monkeypatch):
    monkeypatch.setattr(rounds, "_BLOCKS", [(1, 8)])


def die_once(marker, value):
    """A client's value, which kills the worker that makes it first."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return I32(value)
    return os.kill(os.getpid(), signal.SIGKILL)


def kill_coordinators_once(marker, value):
    """Returns a client's value; the first call kills all coordinators of this machine."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return I32(value)
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if cmdline.read_text().startswith("ray::Coordinator"):
                os.kill(int(cmdline.parent.name), signal.SIGKILL)
        except OSError:
            continue
    return I32(value)


def wait_for_blocks_without_handles(count, context):
    """Waits until that many blocks can be released; a round's thread may hold them briefly."""
    deadline = time.monotonic() + 30
    while len(context._cluster._gone) < count and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert len(context._cluster._gone) == count


def test_coordinators_change_no_bit(few, on_ray, assert_same_bits):
    values = [*range(CLIENTS)]
    on_ray()
    expected = round_of(values, states_of(CLIENTS)), two_stages(values, states_of(CLIENTS))
    on_ray(3, coordinators=2)
    assert_same_bits((round_of(values, states_of(CLIENTS)), two_stages(values, states_of(CLIENTS))), expected)


def test_states_stay_with_the_workers_and_are_found_by_any_coordinator(in_blocks, on_ray, assert_same_bits):
    on_ray()
    states = states_of(CLIENTS)
    for _ in range(3):
        states = round_of([*range(CLIENTS)], states)[2]

    context = on_ray(coordinators=2, client_results="handles")
    handles = round_of([*range(CLIENTS)], states_of(CLIENTS))[2]
    for sampled in [[*range(CLIENTS)[::-1]], [*range(CLIENTS)]]:
        returned = round_of(sampled, [handles[client] for client in sampled])[2]
        handles = [returned[sampled.index(client)] for client in range(CLIENTS)]
        # Values without handles are released before the next round.
        wait_for_blocks_without_handles(3, context)
    assert_same_bits([handle.read() for handle in handles], states)
    on_ray(client_results="handles")  # handles outlive the runtime that made them
    assert round_of([*range(CLIENTS)], handles)[1] == CLIENTS


def test_a_worker_of_a_coordinator_that_is_killed_changes_nothing(
    in_blocks, on_ray, assert_same_bits, tmp_path
):
    on_ray(2, coordinators=1)
    undisturbed = round_of([*range(CLIENTS)], states_of(CLIENTS))
    values = [*range(20), on_worker(die_once, str(tmp_path / "marker"), 20), *range(21, CLIENTS)]
    assert_same_bits(round_of(values, states_of(CLIENTS)), undisturbed)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "computation",
    [
        pytest.param(round_of, id="one stage", marks=pytest.mark.slow),
        pytest.param(two_stages, id="two stages"),
    ],
)
def test_coordinators_that_are_killed_in_a_round_change_nothing(
    computation, in_blocks, on_ray, assert_same_bits, tmp_path
):
    on_ray()
    undisturbed = computation([*range(CLIENTS)], states_of(CLIENTS))
    on_ray(2, coordinators=2)
    values = [*range(CLIENTS)]
    values[50] = on_worker(kill_coordinators_once, str(tmp_path / "marker"), 50)
    assert_same_bits(computation(values, states_of(CLIENTS)), undisturbed)
    assert (tmp_path / "marker").exists()


@pytest.mark.slow
def test_states_that_a_killed_coordinator_held_are_named(in_blocks, on_ray, cluster):
    on_ray(1, coordinators=1, client_results="handles")
    states = round_of([*range(CLIENTS)], states_of(CLIENTS))[2]
    coordinator = states[0].place.shelf.actor
    cluster.kill(coordinator)
    with contextlib.suppress(cluster.exceptions.RayActorError):  # to kill is to ask for it
        while True:
            cluster.get(coordinator.__ray_ready__.remote())
    with pytest.raises(WorkerError, match=r"value of client 7 .* is lost with the machine, or the coord"):
        states[7].read()
    with pytest.raises(WorkerError, match=r"clients \d+ to \d+ of 61 .* value that it was given as a handle"):
        round_of([*range(CLIENTS)], states)
    assert round_of([*range(CLIENTS)], states_of(CLIENTS))[1] == CLIENTS


@pytest.mark.slow
def test_a_round_may_continue_without_slices_of_a_lost_coordinator(in_blocks, on_ray, assert_same_bits):
    values, totals = [*range(CLIENTS)], []
    values[4] = on_worker(die)
    for coordinators in (0, 2):
        on_ray(2, coordinators=coordinators, on_lost="skip", retries=0, client_results="handles")
        total, count, states = round_of(values, states_of(CLIENTS))
        assert count == CLIENTS - 3
        assert [state.lost for state in states] == [3 <= client <= 5 for client in range(CLIENTS)]
        totals.append(total)
    assert_same_bits(*totals)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_more_coordinators_than_workers_are_refused(cluster):
    with pytest.raises(ConfigError, match="3 coordinators are too many for 2 workers"):
        fedplug.use_runtime("ray", workers=2, coordinators=3)
