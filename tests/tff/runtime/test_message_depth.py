"""Tests that deep stacks of aggregators build and run in spite of protobuf's nesting limit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import Transform, TransformFactory

LAYERS = 30


class Counting(Transform):
    """Adds one to every value and counts its rounds."""

    def init_state(self):
        return {"rounds": tf.constant(0)}

    def forward(self, value, state):
        return value + 1.0

    def backward(self, total, state):
        return total

    def next_state(self, total, state):
        return {"rounds": state["rounds"] + 1}


@pytest.mark.slow
@pytest.mark.usefixtures("on_inprocess")
def test_thirty_aggregators_within_one_another_build_and_run():
    factory = tff.aggregators.SumFactory()
    for _ in range(LAYERS):
        factory = TransformFactory(Counting(), factory)
    process = factory.create(tff.TensorType(np.float32, [2]))
    state = process.initialize()
    for _ in range(2):
        output = process.next(state, [np.zeros(2, np.float32), np.array([0.0, 2.0], np.float32)])
        state = output.state
    np.testing.assert_array_equal(output.result, [2 * LAYERS, 2 * LAYERS + 2])
    for _ in range(LAYERS):
        assert state["transform"]["rounds"] == 2
        state = state["inner"]
