"""Special values have the results of the in-process runtime. `RuntimeSuite` checks the simple programs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.mapreduce.intrinsics import federated_secure_modular_sum

import fedplug

I32, I64 = np.int32, np.int64
CLIENTS, SERVER = tff.CLIENTS, tff.SERVER
at_clients = tff.FederatedType(I32, CLIENTS)


@tff.tensorflow.computation(I32)
def square(x):
    return x * x


@tff.tensorflow.computation(tff.SequenceType(I32))
def largest(numbers):
    return numbers.reduce(-1, tf.maximum)


@tff.tensorflow.computation(tff.SequenceType(I64))
def in_order(numbers):
    return numbers.batch(20).reduce(tf.zeros([0], tf.int64), lambda _, batch: batch)


@tff.federated_computation(tff.FederatedType(tff.SequenceType(I64), CLIENTS))
def orders(data):
    return tff.federated_map(in_order, data)


def two_rounds_of_a_shuffle():
    """The worker gets a data set with state, and its counter must not go from client to client."""
    dataset = tf.data.Dataset.range(9).shuffle(9, seed=1)
    return [orders([dataset] * 7) for _ in range(2)]


@tff.tensorflow.computation
def one():
    return tf.constant(1, tf.int32)


@tff.federated_computation(
    tff.FederatedType(tff.SequenceType(I32), CLIENTS), tff.FederatedType(np.str_, CLIENTS)
)
def of_data_and_strings(data, names):
    return tff.federated_map(largest, data), names, tff.federated_sum(tff.federated_map(largest, data))


@tff.federated_computation(at_clients)
def drawn_at_clients(values):
    return tff.federated_sum(tff.federated_eval(one, CLIENTS)), tff.federated_sum(
        tff.federated_value(2, CLIENTS)
    )


@tff.federated_computation(at_clients)
def secure_sums(values):
    pairs = tff.federated_map(square, values)
    return (
        tff.federated_secure_sum(values, 100),
        tff.federated_secure_sum_bitwidth(pairs, 10),
        federated_secure_modular_sum(values, np.int32(7)),
    )


@tff.tensorflow.computation(tff.TensorType(I32, [3]), I32)
def entry(table, key):
    return tf.gather(table, key)


@tff.tensorflow.computation(I32)
def keys_of(x):
    return tf.stack([x % 3, (x + 1) % 3])


@tff.federated_computation(at_clients, tff.FederatedType(tff.TensorType(I32, [3]), SERVER))
def selected(values, table):
    keys = tff.federated_map(keys_of, values)
    chosen = tff.federated_select(keys, tff.federated_value(3, SERVER), table, entry)
    return tff.federated_sum(tff.federated_map(largest, chosen))


@tff.federated_computation(tff.FunctionType(I32, I32), at_clients)
def with_a_function(function, values):
    return tff.federated_sum(tff.federated_map(function, values))


NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]
PROGRAMS = {
    "data sets and strings": lambda: of_data_and_strings(
        [tf.data.Dataset.range(n, output_type=tf.int32) for n in NUMBERS], [f"name {n}" for n in NUMBERS]
    ),
    "a data set with state": two_rounds_of_a_shuffle,
    "lists of elements": lambda: of_data_and_strings([[n, 1] for n in NUMBERS], ["a"] * len(NUMBERS)),
    "evaluated by clients": lambda: drawn_at_clients(NUMBERS),
    "secure sums": lambda: secure_sums(NUMBERS),
    "a selection": lambda: selected(NUMBERS, [10, 20, 30]),
    "a function as argument": lambda: with_a_function(square, NUMBERS),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_result_as_in_process(name, on_ray, assert_same_bits):
    with fedplug.use_runtime("inprocess"):
        expected = PROGRAMS[name]()
    on_ray()
    assert_same_bits(PROGRAMS[name](), expected)


def data_of(client):
    rng = np.random.default_rng(client)
    x, y = rng.normal(size=(16, 20)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def train(process, rounds=2, clients=10):
    state, client_states = process.initialize(), [process.initialize_client()] * clients
    for _ in range(rounds):
        output = process.next(state, [data_of(client) for client in range(clients)], client_states)
        state, client_states = output["state"], output["client_states"]
    return output


@pytest.mark.parametrize("workers", [*(pytest.param(few, marks=pytest.mark.slow) for few in (1, 2)), 3])
def test_compressed_training_has_the_bits_of_one_process_on_any_number_of_workers(
    process, on_ray, assert_same_bits, workers
):
    with fedplug.use_runtime("inprocess"):
        alone = train(process)
    on_ray(workers)
    assert_same_bits(train(process), alone)


def test_a_trainer_keeps_its_store_on_the_driver(process, on_ray):
    on_ray()
    trainer = fedplug.Trainer(process, {f"client {i}": data_of(i) for i in range(6)}, clients_per_round=4)
    trainer.run(2)
    assert trainer.last_metrics["aggregator"]["clients"] == 4
