"""Rounds on a cluster: the cost of dead and slow workers, errors, and the values that clients are sent."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray import client_values, on_worker, pool
from fedplug_ray.context import _connect
from fedplug_ray.messages import serialize

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
    with pytest.raises(WorkerError, match=r"client 4 of 10 \(counted from 0\) of 'round_of'.*died"):
        round_of(values, states_of(10))
    assert round_of([*range(10)], states_of(10))[1] == 10


def test_an_error_names_the_client_by_its_position_in_the_round(on_ray):
    on_ray()
    with pytest.raises(ComputationError, match=r"client 7 of 10 .*'round_of'.*no logarithm") as caught:
        round_of([*range(7), -2, 8, 9], states_of(10))
    assert caught.value.client == 7
    assert isinstance(caught.value, tf.errors.InvalidArgumentError)
    assert round_of([*range(10)], states_of(10))[1] == 10


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
        ({"retries": -1}, "retries must be at least 0, found -1"),
        ({"workers": 0}, "workers must be at least 1, found 0"),
        ({"address": "10.0.0.1:6379"}, "already connected to a Ray cluster; leave out address"),
    ],
)
def test_an_option_without_sense_is_refused(options, message, cluster):
    with pytest.raises(ConfigError, match=message):
        fedplug.use_runtime("ray", **options)


@pytest.mark.parametrize(
    ("address", "reason", "named"),
    [("192.0.2.7:6379", "no session", "192.0.2.7:6379 .no session"), (None, "", "this machine .no answer")],
)
def test_an_unreachable_cluster_is_an_error_with_advice(monkeypatch, address, reason, named):
    def init(**arguments):
        # Ray's own error, which it raises after minutes.
        raise ConnectionError(reason)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=rf"{named}.*delete ray_current_cluster"):
        _connect(address)


def test_the_lines_of_the_documentation_run(on_ray, monkeypatch):
    pages = (Path(__file__).parents[1] / "README.md", Path(__file__).parents[3] / "docs" / "scaling.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    readme, first, second = re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    class Process:
        """A process as short as can be, with the arguments and results of those the page speaks of."""

        @staticmethod
        def initialize():
            return two_stages([1])

        @staticmethod
        def next(state, data, states):
            return {"client_states": round_of(data, states)[2]}

    def use_runtime(name, address=None, workers=2):
        on_ray(2)

    monkeypatch.setattr(fedplug, "use_runtime", use_runtime)
    names = {
        "process": Process,
        "sampled": ["a", "b"],
        "load_dataset": lambda client_id: I32(ord(client_id)),
        "states": {"a": np.zeros(1000, F32), "b": np.zeros(1000, F32)},
    }
    exec(readme + first + second, names)
    np.testing.assert_array_equal(names["states"]["b"], np.full(1000, ord("b"), F32))


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


def test_a_client_is_not_sent_the_servers_optimizer(on_ray, monkeypatch):
    sent = []
    monkeypatch.setattr(pool, "serialize", lambda value: sent.append(serialize(value)) or sent[-1])

    @tff.tensorflow.computation(tff.TensorType(F32, [3]), I32)
    def train(weights, x):
        return weights * tf.cast(x, tf.float32)

    @tff.federated_computation(
        tff.FederatedType([("weights", tff.TensorType(F32, [3])), ("momentum", STATE)], tff.SERVER),
        tff.FederatedType(I32, tff.CLIENTS),
    )
    def next_fn(server, values):
        trained = tff.federated_map(train, (tff.federated_broadcast(server["weights"]), values))
        return tff.federated_mean(trained), server["momentum"]

    on_ray()
    next_fn({"weights": np.ones(3, F32), "momentum": np.ones(1000, F32)}, [1, 2])
    arrays = [leaf for leaf in tf.nest.flatten(sent) if isinstance(leaf, np.ndarray)]
    assert max(array.size for array in arrays) == 3
