"""Tests that deep stacks of aggregators build and run in spite of protobuf's nesting limit."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

LAYERS = 30
VALUE = tff.TensorType(np.float32, [2])


class Counting(tff.aggregators.UnweightedAggregationFactory):
    """Adds one to every value and counts its rounds; its state contains the inner state."""

    def __init__(self, inner: tff.aggregators.UnweightedAggregationFactory) -> None:
        self._inner = inner

    def create(self, value_type):
        inner = self._inner.create(value_type)

        @tff.tensorflow.computation(value_type)
        def add_one(value):
            return value + 1.0

        @tff.tensorflow.computation(np.int32)
        def count(rounds):
            return rounds + 1

        @tff.federated_computation
        def init():
            state = collections.OrderedDict(
                rounds=tff.federated_value(np.int32(0), tff.SERVER), inner=inner.initialize()
            )
            return tff.federated_zip(state)

        @tff.federated_computation(init.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS))
        def next_fn(state, value):
            output = inner.next(state["inner"], tff.federated_map(add_one, value))
            new = collections.OrderedDict(
                rounds=tff.federated_map(count, state["rounds"]), inner=output.state
            )
            return tff.templates.MeasuredProcessOutput(
                tff.federated_zip(new), output.result, output.measurements
            )

        return tff.templates.AggregationProcess(init, next_fn)


@pytest.mark.slow
@pytest.mark.usefixtures("on_inprocess")
def test_thirty_aggregators_within_one_another_build_and_run():
    factory = tff.aggregators.SumFactory()
    for _ in range(LAYERS):
        factory = Counting(factory)
    process = factory.create(VALUE)
    state = process.initialize()
    for _ in range(2):
        output = process.next(state, [np.zeros(2, np.float32), np.array([0.0, 2.0], np.float32)])
        state = output.state
    np.testing.assert_array_equal(output.result, [2 * LAYERS, 2 * LAYERS + 2])
    depth = 0
    while isinstance(state, collections.abc.Mapping) and "rounds" in state:
        assert state["rounds"] == 2
        state, depth = state["inner"], depth + 1
    assert depth == LAYERS
