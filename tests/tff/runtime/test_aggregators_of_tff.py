"""Tests that TFF's aggregators and analytics give the stock worker's numbers unchanged.

The compiled math of two TensorFlow builds may differ in the last bit, so most tests have a tolerance.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.test.compiler import replace_secure_intrinsics_with_bodies

F32 = np.float32
ROUNDING = 1e-6
VALUE = tff.StructWithPythonType([("w", tff.TensorType(F32, [3])), ("b", F32)], collections.OrderedDict)
VALUES = [collections.OrderedDict(w=np.array([n, 0.1, -2.0], F32), b=F32(n / 3)) for n in range(1, 5)]


@pytest.mark.parametrize(
    "factory",
    [
        tff.learning.robust_aggregator(),  # clips, zeroes, and takes the mean
        tff.aggregators.DifferentiallyPrivateFactory.tree_aggregation(
            0.0,
            4.0,
            1.0,
            record_specs=collections.OrderedDict(
                w=tf.TensorSpec([3], tf.float32), b=tf.TensorSpec([], tf.float32)
            ),
            noise_seed=1,
        ),
        tff.aggregators.UnweightedReservoirSamplingFactory(10, return_sampling_metadata=False),
        tff.aggregators.add_measurements(
            tff.aggregators.SumFactory(),
            client_measurement_fn=lambda value: collections.OrderedDict(
                norm=tff.federated_mean(
                    tff.federated_map(tff.tensorflow.computation(lambda v: tf.norm(v["w"])), value)
                )
            ),
        ),
    ],
    ids=["robust", "dp tree", "sample", "measurements"],
)
def test_aggregators(same_on_both, factory):
    weighted = isinstance(factory, tff.aggregators.WeightedAggregationFactory)
    process = factory.create(VALUE, tff.to_type(F32)) if weighted else factory.create(VALUE)
    weights = [[1.0, 2.0, 3.0, 4.0]] if weighted else []

    def aggregate():
        results = []
        state = process.initialize()
        for _ in range(2):
            output = process.next(state, VALUES, *weights)
            state = output.state
            results.append((output.result, output.measurements))
        if isinstance(factory, tff.aggregators.UnweightedReservoirSamplingFactory):
            return [sorted(result["b"]) for result, _ in results]  # of all clients, in random order
        return results

    same_on_both(aggregate, ROUNDING)


@pytest.mark.slow
def test_secure_aggregation_has_the_numbers_of_the_test_runtime_of_tff(inprocess, native):
    """The stock worker has no secure sums; TFF's test runtime rewrites them."""
    process = tff.learning.secure_aggregator().create(VALUE, tff.to_type(F32))
    stack = tff.framework.get_context_stack()
    with stack.install(inprocess):
        state = process.initialize()
        ours = process.next(state, VALUES, [1.0, 1.0, 1.0, 2.0])
    with stack.install(native):
        stock = replace_secure_intrinsics_with_bodies(process.next)(state, VALUES, [1.0, 1.0, 1.0, 2.0])
    np.testing.assert_array_equal(ours.result["w"], stock["result"]["w"])
    assert ours.result["b"] == stock["result"]["b"]
