"""Times a round of federated averaging with 10 clients: dense, and top-k with compiled ops and references."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import build_weighted_fed_avg
from fedplug.tff.runtime import use_runtime

FEATURES, HIDDEN, CLASSES, CLIENTS = 256, 1024, 10, 10


def model_fn() -> tff.learning.models.VariableModel:
    """A model with 270,000 parameters."""
    layers = [
        tf.keras.layers.Dense(HIDDEN, activation="relu", input_shape=(FEATURES,)),
        tf.keras.layers.Dense(CLASSES),
    ]
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(layers),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, FEATURES], tf.float32), tf.TensorSpec([None], tf.int32)),
    )


@pytest.fixture(scope="module", autouse=True)
def _inprocess() -> Iterator[None]:
    with use_runtime("inprocess"):
        yield


@pytest.fixture(scope="module")
def data() -> list[tf.data.Dataset]:
    rng = np.random.default_rng(0)
    return [
        tf.data.Dataset.from_tensor_slices(
            (
                rng.normal(size=(64, FEATURES)).astype(np.float32),
                rng.integers(0, CLASSES, 64).astype(np.int32),
            )
        ).batch(16)
        for _ in range(CLIENTS)
    ]


@pytest.mark.benchmark(group="one round, 10 clients, 270,000 parameters")
@pytest.mark.parametrize(
    ("encoder", "lowering", "ratio"),
    [("identity", "fused", 1), ("topk(0.01)", "fused", 79), ("topk(0.01)", "reference", 79)],
)
def test_one_round(benchmark, data, encoder, lowering, ratio) -> None:
    process = build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1), encoder=encoder, lowering=lowering
    )
    state, client_states = process.initialize(), [process.initialize_client()] * CLIENTS
    process.next(state, data, client_states)
    output = benchmark(process.next, state, data, client_states)
    sent = output["metrics"]["aggregator"]
    assert sent["payloads"] == CLIENTS
    assert process.dense_bytes * CLIENTS / sent["uplink_bytes"] == pytest.approx(ratio, rel=0.02)
