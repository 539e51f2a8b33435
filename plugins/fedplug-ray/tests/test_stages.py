"""Tests which part of a computation runs for every slice of the clients, and which part waits for it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray.runtime import stages

I32 = np.int32
at_clients = tff.FederatedType(I32, tff.CLIENTS)
at_server = tff.FederatedType(I32, tff.SERVER)
add = tff.tensorflow.computation(lambda a, b: a + b, I32, I32)


def cut(computation):
    return stages.cut(tff.backends.native.desugar_and_transform_to_native(computation).to_building_block())


def stages_of(computation):
    return [step for step in cut(computation).steps if isinstance(step, stages.Stage)]


def kinds(named):
    return [str(kind) for _, kind in named]


def test_aggregations_that_do_not_wait_for_one_another_are_one_stage():
    @tff.federated_computation(at_clients, at_server)
    def both(values, shift):
        shifted = tff.federated_map(add, (values, tff.federated_broadcast(shift)))
        return tff.federated_min(shifted), tff.federated_sum(values), tff.federated_max(shifted)

    (stage,) = stages_of(both)
    assert kinds(stage.clients) == ["{int32}@CLIENTS"]
    assert stage.keeps == ()


def test_code_after_an_aggregation_is_the_next_stage_and_keeps_the_clients_values():
    @tff.federated_computation(at_clients)
    def deviations(values):
        doubled = tff.federated_map(add, (values, values))
        total = tff.federated_broadcast(tff.federated_sum(doubled))
        return tff.federated_sum(tff.federated_map(add, (doubled, total)))

    first, second = stages_of(deviations)
    assert kinds(first.keeps) == ["{int32}@CLIENTS"]
    assert [name for name, _ in second.clients] == [name for name, _ in first.keeps]
    assert "int32@CLIENTS" in kinds(second.inputs)


def test_a_learning_process_is_one_stage_that_is_not_sent_the_servers_optimizer():
    weights = tff.TensorType(np.float32, [3])
    momentum = tff.TensorType(np.float32, [7])
    state = tff.FederatedType([("weights", weights), ("momentum", momentum)], tff.SERVER)

    @tff.tensorflow.computation(weights, I32)
    def train(w, x):
        return w * tf.cast(x, tf.float32)

    @tff.federated_computation(state, at_clients)
    def next_fn(server, data):
        trained = tff.federated_map(train, (tff.federated_broadcast(server["weights"]), data))
        return tff.federated_mean(trained), server["momentum"]

    (stage,) = stages_of(next_fn)
    assert not [kind for kind in kinds(stage.inputs) if "7" in kind]
    assert [kind for kind in kinds(stage.inputs) if "float32[3]@CLIENTS" in kind]


def test_computations_without_clients_and_with_functions_are_not_cut():
    @tff.federated_computation(tff.FunctionType(I32, I32), at_clients)
    def of_a_function(function, values):
        return tff.federated_sum(tff.federated_map(function, values))

    assert cut(of_a_function) is None
    assert cut(add) is None
