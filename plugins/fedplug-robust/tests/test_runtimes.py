"""Robust aggregators in TFF processes: the same bits on the in-process runtime and on TFF's stock one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_federated as tff

import fedplug

UPDATES = list(np.random.default_rng(0).normal(size=(6, 100)).astype(np.float32))


def result(runtime, aggregator):
    with fedplug.use_runtime(runtime):
        factory = fedplug.tff.process.build_aggregation_factory("topk(0.5, error_feedback=False)", aggregator)
        process = factory.create(tff.TensorType(np.float32, [100]), tff.TensorType(np.float32))
        return process.next(process.initialize(), UPDATES, [1.0] * len(UPDATES)).result


@pytest.mark.parametrize(
    "aggregator",
    [
        "krum(1, selected=2)",
        pytest.param("median", marks=pytest.mark.slow),
        pytest.param("trimmed_mean(0.2)", marks=pytest.mark.slow),
    ],
)
def test_both_runtimes_give_the_same_bits(aggregator):
    in_process, stock = (result(runtime, aggregator) for runtime in ("inprocess", "native"))
    assert np.any(in_process != 0)
    np.testing.assert_array_equal(in_process, stock)


def test_too_many_clients_end_the_round_with_the_reason():
    with pytest.raises(fedplug.errors.ComputationError, match=r"room for .* 2 clients.*larger max_clients"):
        result("inprocess", "median(max_clients=2)")
