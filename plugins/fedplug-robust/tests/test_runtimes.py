"""Robust aggregators in TFF processes: the same bits on the in-process runtime and on TFF's stock one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_federated as tff

import fedplug

ROBUST = ["median", "trimmed_mean(0.2)", "krum(1, selected=2)"]
UPDATES = list(np.random.default_rng(0).normal(size=(6, 100)).astype(np.float32))


def results(runtime):
    value_type, weight_type = tff.TensorType(np.float32, [100]), tff.TensorType(np.float32)
    found = {}
    with fedplug.use_runtime(runtime):
        for text in ROBUST:
            factory = fedplug.tff.process.build_aggregation_factory(
                fedplug.encoder("topk(0.5, error_feedback=False)"), fedplug.aggregator(text)
            )
            process = factory.create(value_type, weight_type)
            found[text] = process.next(process.initialize(), UPDATES, [1.0] * len(UPDATES)).result
    return found


@pytest.fixture(scope="module")
def in_process():
    return results("inprocess")


@pytest.fixture(scope="module")
def stock():
    return results("native")


@pytest.mark.parametrize("text", ROBUST)
def test_both_runtimes_give_the_same_bits(in_process, stock, text):
    assert np.any(in_process[text] != 0)
    np.testing.assert_array_equal(in_process[text], stock[text])


def test_too_many_clients_end_the_round_with_the_reason():
    with fedplug.use_runtime("inprocess"):
        factory = fedplug.tff.process.build_aggregation_factory(
            fedplug.encoder("identity"), fedplug.aggregator("median(max_clients=2)")
        )
        process = factory.create(tff.TensorType(np.float32, [100]), tff.TensorType(np.float32))
        with pytest.raises(fedplug.errors.ComputationError, match="room for the updates of 2 clients"):
            process.next(process.initialize(), UPDATES[:3], [1.0] * 3)
