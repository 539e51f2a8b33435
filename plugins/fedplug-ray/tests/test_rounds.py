"""Rounds on a cluster: what dead and slow workers cost, what errors say, where clients' values stay."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray import on_worker
from fedplug_ray.runtime import client_values
from fedplug_ray.runtime.messages import Shared

import fedplug
from fedplug.errors import ComputationError, ConfigError, WorkerError

I32, F32 = np.int32, np.float32
STATE = tff.TensorType(F32, [1000])


@tff.tensorflow.computation(I32, STATE)
def work(x, state):
    number = tf.cast(x, tf.float32)
    return tf.debugging.check_numerics(tf.math.log(1.0 + number), "no logarithm"), state + number


@tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS), tff.FederatedType(STATE, tff.CLIENTS))
def round_of(values, states):
    done = tff.federated_map(work, (values, states))
    return tff.federated_sum(done[0]), tff.federated_sum(tff.federated_value(1, tff.CLIENTS)), done[1]


@tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS))
def two_stages(values):
    total = tff.federated_broadcast(tff.federated_sum(values))
    mapped = tff.federated_map(tff.tensorflow.computation(lambda a, b: a + b, I32, I32), (values, total))
    return tff.federated_sum(mapped)


def states_of(count):
    return [np.zeros(1000, F32)] * count


def die_once(marker, value):
    """A client's value, which kills the worker that makes it first."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return I32(value)
    return die()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def late(seconds, value):
    time.sleep(seconds)
    return I32(value)


def test_a_worker_that_is_killed_in_a_round_changes_nothing(on_ray, assert_same_bits, tmp_path):
    on_ray()
    undisturbed = round_of([*range(10)], states_of(10))
    values = [*range(5), on_worker(die_once, str(tmp_path / "marker"), 5), *range(6, 10)]
    assert_same_bits(round_of(values, states_of(10)), undisturbed)
    assert (tmp_path / "marker").exists()


def test_a_round_fails_when_all_tries_failed(on_ray):
    on_ray(retries=0)
    values = [*range(4), on_worker(die), *range(5, 10)]
    with pytest.raises(WorkerError, match=r"clients 3 to 5 of 10 \(counted from 0\) of 'round_of'.*died"):
        round_of(values, states_of(10))
    assert round_of([*range(10)], states_of(10))[1] == 10


def test_a_round_may_continue_without_lost_clients(on_ray, assert_same_bits):
    on_ray(on_lost="skip", retries=0, client_results="handles")
    values = [*range(4), on_worker(die), *range(5, 10)]
    total, count, states = round_of(values, states_of(10))
    others = [*range(3), *range(6, 10)]
    assert count == len(others)
    assert total == pytest.approx(np.log1p(others).sum())
    assert [state.lost for state in states] == [3 <= client <= 5 for client in range(10)]
    np.testing.assert_array_equal(states[9].read(), np.full(1000, 9, F32))
    with pytest.raises(WorkerError, match=r"client 4 \(counted from 0\) has no result"):
        states[4].read()
    with pytest.raises(WorkerError, match="client 3"):
        round_of([*range(10)], states)


def test_a_round_in_which_all_clients_are_lost_fails(on_ray):
    on_ray(on_lost="skip", retries=0)
    with pytest.raises(WorkerError, match="all clients of 'two_stages' were lost"):
        two_stages([on_worker(die)])


def test_an_error_names_the_client_by_its_position_in_the_round(on_ray):
    on_ray()
    with pytest.raises(
        ComputationError, match=r"among clients 6 to 8 of 10: client 1 .*'round_of'.*no logarithm"
    ) as caught:
        round_of([*range(7), -2, 8, 9], states_of(10))
    assert caught.value.client == 7
    assert isinstance(caught.value, tf.errors.InvalidArgumentError)
    assert round_of([*range(10)], states_of(10))[1] == 10


def test_states_stay_in_the_cluster_until_they_are_read(on_ray, assert_same_bits):
    on_ray()
    states = states_of(10)
    for _ in range(3):
        expected = round_of([*range(10)], states)
        states = expected[2]

    on_ray(client_results="handles")
    states = states_of(10)
    for sampled in [[*range(10)], [*range(9, -1, -1)], [*range(10)]]:
        _, _, returned = round_of(sampled, [states[client] for client in sampled])
        states = [returned[sampled.index(client)] for client in range(10)]
    assert_same_bits([state.read() for state in states], expected[2])
    with fedplug.use_runtime("inprocess"):
        assert round_of([*range(10)], [state.read() for state in states])[1] == 10


def test_programs_leave_the_cluster_with_their_computation(on_ray):
    def shared():
        gc.collect()
        return sum(type(kept) is Shared for kept in gc.get_objects())

    on_ray()
    before = shared()
    total = tff.federated_computation(tff.federated_sum, tff.FederatedType(I32, tff.CLIENTS))
    assert total([1, 2]) == 3
    assert shared() > before
    del total
    assert shared() == before


def test_a_value_that_is_lost_with_its_machine_says_whose_it_was(monkeypatch):

    def lost(references):
        raise client_values.ray.exceptions.ObjectLostError("00", None, "")

    monkeypatch.setattr(client_values.ray, "get", lost)
    kind = tff.TensorType(I32)
    task = client_values.Task("a slice", submit=list, others=[object()])
    handle = client_values.ClientHandle(task, 0, kind, 3)
    with pytest.raises(
        WorkerError, match=r"value of client 3 \(counted from 0\) is lost .* run the round again"
    ):
        handle.read()
    with pytest.raises(WorkerError, match="value of one of 2 clients is lost"):
        client_values.here(client_values.ClientValues([handle, handle]), tff.FederatedType(kind, tff.CLIENTS))


def test_a_handle_of_another_type_is_refused(on_ray):
    on_ray(client_results="handles")
    _, _, states = round_of([1, 2], states_of(2))
    with pytest.raises(TypeError, match=r"handle is of type float32\[1000\], expected int32"):
        two_stages(states)


def data_of(client, size):
    return tf.data.Dataset.range(client, client + size, output_type=tf.int32)


def test_tensor_metrics_are_those_of_one_process(on_ray):
    value_type = tff.to_type([tff.TensorType(F32, [300]), tff.TensorType(F32, [40])])
    rng = np.random.default_rng(0)
    values = [[rng.normal(size=size).astype(F32) for size in (300, 40)] for _ in range(7)]

    def measured():
        factory = fedplug.tff.process.build_aggregation_factory(
            "qsgd(4) | rans", min_size=50, tensor_metrics=True
        )
        process = factory.create(value_type, tff.TensorType(F32))
        return process.next(process.initialize(), values, [1.0] * 7).measurements["tensors"]

    with fedplug.use_runtime("inprocess"):
        expected = measured()
    on_ray()
    found = measured()
    assert found.keys() == expected.keys()
    for key, vector in expected.items():
        np.testing.assert_allclose(found[key], vector, rtol=1e-5, err_msg=key)


def test_data_is_made_where_it_is_used(on_ray):
    @tff.tensorflow.computation(tff.SequenceType(I32))
    def total(numbers):
        return numbers.reduce(0, lambda a, b: a + b)

    @tff.federated_computation(tff.FederatedType(tff.SequenceType(I32), tff.CLIENTS))
    def totals(data):
        return tff.federated_map(total, data), data

    on_ray()
    mapped, given_back = totals([on_worker(data_of, client, 3) for client in range(5)])
    assert mapped == [3 * client + 3 for client in range(5)]
    assert list(given_back[4].as_numpy_iterator()) == [4, 5, 6]


def test_ctrl_c_ends_a_round_and_the_next_one_runs(on_ray):
    on_ray()
    before = time.monotonic()
    main = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, [main, signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        two_stages([on_worker(late, 30, 1), 2])
    assert time.monotonic() - before < 30
    assert two_stages([1, 2]) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_lost": "ignore"}, "on_lost must be one of 'fail', 'skip', found 'ignore'"),
        ({"client_results": "lists"}, "client_results must be one of 'handles', 'values'"),
        ({"clients_per_slice": 0}, "clients_per_slice must be at least 1, found 0"),
        ({"workers": 0}, "workers must be at least 1, found 0"),
        ({"address": "10.0.0.1:6379"}, "already connected to a Ray cluster; leave out address"),
    ],
)
def test_an_option_without_sense_is_refused(options, message, cluster):
    with pytest.raises(ConfigError, match=message):
        fedplug.use_runtime("ray", **options)


def test_the_lines_of_the_documentation_run(on_ray, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "scaling.md"
    first, second, _, last = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    class Process:
        """A process as short as can be, with the arguments and results of those the page speaks of."""

        @staticmethod
        def initialize():
            return two_stages([1])

        @staticmethod
        def next(state, data, states):
            return {"client_states": round_of(data, states)[2]}

    def use_runtime(name, address=None, workers=2, client_results="values"):
        on_ray(2, client_results=client_results)

    monkeypatch.setattr(fedplug, "use_runtime", use_runtime)
    monkeypatch.setattr(fedplug, "Trainer", lambda *arguments, **options: options)
    names = {
        "process": Process,
        "client_data": {},
        "sampled": ["a", "b"],
        "load_dataset": lambda client_id: I32(ord(client_id)),
        "states": {"a": np.zeros(1000, F32), "b": np.zeros(1000, F32)},
    }
    exec(first + second, names)
    np.testing.assert_array_equal(names["states"]["b"].read(), np.full(1000, ord("b"), F32))
    exec(last, names)
    assert names["trainer"]["over_sampling"].reserve(100) == 30


def test_clients_values_elsewhere_are_passed_by_and_others_become_arrays():
    data = [on_worker(abs, number) for number in range(3)]
    parts = {"data": data, "model": tf.constant([1.0])}, data, [tf.constant(2)] * 2
    argument = client_values.set_apart(tff.structure.Struct.unnamed(*parts))
    assert argument[0] is parts[0]
    assert not isinstance(argument[1], list)  # for TFF, a leaf
    nested, same, numbers = client_values.to_arrays(list(argument))
    assert same is data
    assert nested["data"] == data
    assert isinstance(nested["model"], np.ndarray)
    assert [type(number) for number in numbers] == [np.int32] * 2
    assert client_values.to_arrays(client_values.set_apart(data)) is data
