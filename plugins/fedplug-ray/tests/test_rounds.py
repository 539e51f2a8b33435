"""Rounds on a cluster: the cost of dead workers, errors, and the values that clients are sent."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import ray
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray import pool
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


def kill(worker):
    """Returns when the worker is dead."""
    ray.kill(worker)
    with contextlib.suppress(ray.exceptions.RayActorError):
        while True:
            ray.get(worker.ready.remote())


def test_a_worker_that_dies_changes_nothing(on_ray, shared_workers, assert_same_bits):
    on_ray()
    undisturbed = round_of([*range(10)], states_of(10))
    kill(shared_workers[0])
    assert_same_bits(round_of([*range(10)], states_of(10)), undisturbed)


def test_a_round_fails_when_all_tries_failed(on_ray, shared_workers):
    on_ray(retries=0)
    assert round_of([*range(10)], states_of(10))[1] == 10
    kill(shared_workers[0])
    with pytest.raises(WorkerError, match=r"client \d of 10 \(counted from 0\) of 'round_of'"):
        round_of([*range(10)], states_of(10))
    assert round_of([*range(10)], states_of(10))[1] == 10


def test_an_error_names_the_client_by_its_position_in_the_round(on_ray):
    on_ray()
    with pytest.raises(ComputationError, match=r"client 7 of 10 .*'round_of'.*no logarithm") as caught:
        round_of([*range(7), -2, 8, 9], states_of(10))
    assert caught.value.client == 7
    assert isinstance(caught.value, tf.errors.InvalidArgumentError)
    assert round_of([*range(10)], states_of(10))[1] == 10


def test_ctrl_c_ends_a_round_and_the_next_one_runs(on_ray):
    @tff.tensorflow.computation(I32)
    def endless(x):
        return tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i + 1, 0), [x])

    @tff.federated_computation(tff.FederatedType(I32, tff.CLIENTS))
    def never(values):
        return tff.federated_map(endless, values)

    on_ray()
    main = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, [main, signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        never([1, 2])
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


def test_the_lines_of_the_documentation_run(process, on_ray, monkeypatch, tmp_path):
    pages = (Path(__file__).parents[1] / "README.md", Path(__file__).parents[3] / "docs" / "scaling.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    readme, first, second = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for name in ("a", "b"):
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.tfrecord")) as file:
            file.write(np.ones(20, F32).tobytes())

    def parse(record):
        return tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [20]), tf.constant(1)

    monkeypatch.setattr(fedplug, "use_runtime", lambda name, **options: on_ray())
    names = {"process": process, "parse": parse}
    exec(readme + first + second.replace('"a.', f'"{tmp_path}/a.').replace('"b.', f'"{tmp_path}/b.'), names)
    assert names["output"]["metrics"]["aggregator"]["payloads"] == 2


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
