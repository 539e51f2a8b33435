"""Tests averaging with client-local variables: a round's arithmetic, stored state, refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug import Trainer
from fedplug.errors import ConfigError
from fedplug.tff.process import build_local_variables_fed_avg
from fedplug.tff.training.trainer import ClientDataset

FEATURES = 6


class Offset(tf.keras.layers.Layer):
    """Adds a number that is local to the client."""

    def __init__(self) -> None:
        super().__init__()
        self.value = self.add_weight("value", shape=(1,), initializer="zeros")

    def call(self, x):
        return x + self.value


def model_fn(local=True):
    weights, offset = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"), Offset()
    inputs = tf.keras.Input((FEATURES,))
    return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
        tf.keras.Model(inputs, offset(weights(inputs))),
        global_layers=[weights] if local else [weights, offset],
        local_layers=[offset] if local else [],
        input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None, 1])),
    )


def build(model=model_fn, **options):
    sgd = tff.learning.optimizers.build_sgdm
    return build_local_variables_fed_avg(
        model, tf.keras.losses.MeanSquaredError, sgd(0.05), sgd(0.2), **options
    )


def examples_of(seed, count=8):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, FEATURES)).astype(np.float32), rng.normal(seed, 1, (count, 1)).astype(
        np.float32
    )


def dataset(seed, count=8):
    return tf.data.Dataset.from_tensor_slices(examples_of(seed, count)).batch(4)


def offset_of(client_state):
    return float(np.asarray(client_state["local"].trainable[0])[0])


def weights_of(state):
    return np.asarray(state.global_model_weights.trainable[0])


def trained(x, y, weights, offset, local_epochs):
    """Computes the same in NumPy: local passes with fixed weights, then a pass with a fixed offset."""
    batches = [(x[i : i + 4], y[i : i + 4]) for i in range(0, len(x), 4)]
    for _ in range(local_epochs):
        for bx, by in batches:
            offset = offset - 0.2 * 2 * np.mean(bx @ weights + offset - by)
    for bx, by in batches:
        weights = weights - 0.05 * 2 * bx.T @ (bx @ weights + offset - by) / len(bx)
    return weights, offset


@pytest.fixture(scope="module")
def process(inprocess):
    return build(local_epochs=2)


def test_a_round_trains_the_local_then_the_global_variables_and_averages_the_global_ones(process):
    seeds, counts = [1, 2], [8, 4]
    states = [process.initialize_client()] * 2
    data = [dataset(seed, count) for seed, count in zip(seeds, counts, strict=True)]
    output = process.next(process.initialize(), data, states)
    start = np.ones((FEATURES, 1))
    expected = [trained(*examples_of(s, n), start, 0.0, 2) for s, n in zip(seeds, counts, strict=True)]
    mean = np.average([weights for weights, _ in expected], axis=0, weights=counts)
    np.testing.assert_allclose(weights_of(output["state"]), mean, rtol=1e-5)
    offsets = [offset_of(state) for state in output["client_states"]]
    np.testing.assert_allclose(offsets, [offset for _, offset in expected], rtol=1e-5)


def test_the_loss_is_the_mean_over_all_examples_and_local_variables_are_not_sent(process):
    output = process.next(process.initialize(), [dataset(1), dataset(2)], [process.initialize_client()] * 2)
    metrics = output["metrics"]
    assert metrics["client_work"]["train"]["num_examples"] == 16
    assert 0 < metrics["client_work"]["train"]["loss"] < 20
    header = 8 + len("identity/1") + 4 * 2 + 8 + 4
    assert metrics["aggregator"]["uplink_bytes"] == 2 * (4 * FEATURES + header)


def test_a_client_that_skips_a_round_finds_its_variables_as_it_left_them(process):
    trainer = Trainer(process, {"a": dataset(1), "b": dataset(2)})
    state = trainer.next(trainer.initialize(), [ClientDataset("a", dataset(1))]).state
    left = offset_of(trainer.client_states(["a"])["a"])
    state = trainer.next(state, [ClientDataset("b", dataset(2))]).state
    assert left != 0
    assert offset_of(trainer.client_states(["a"])["a"]) == left
    weights = weights_of(state)
    trainer.next(state, [ClientDataset("a", dataset(1))])
    _, expected = trained(*examples_of(1), weights, left, 2)
    assert offset_of(trainer.client_states(["a"])["a"]) == pytest.approx(expected, rel=1e-5)


def test_a_client_that_diverges_sends_nothing_is_counted_and_keeps_its_state(process):
    x, y = examples_of(1)
    broken = tf.data.Dataset.from_tensor_slices((x, np.full_like(y, np.nan))).batch(4)
    both = process.next(process.initialize(), [dataset(2), broken], [process.initialize_client()] * 2)
    alone = process.next(process.initialize(), [dataset(2)], [process.initialize_client()])
    np.testing.assert_array_equal(weights_of(both["state"]), weights_of(alone["state"]))
    assert offset_of(both["client_states"][1]) == 0
    assert both["metrics"]["aggregator"]["nonfinite_updates"] == 1
    assert both["metrics"]["client_work"]["train"]["num_examples"] == 8


def test_a_broadcast_encoder_counts_bytes_and_keeps_the_clients_versions(inprocess):
    process = build(broadcast_encoder="bfp(4)", min_size=1)
    first = process.next(process.initialize(), [dataset(1)], [process.initialize_client()])
    states = [first["client_states"][0], process.initialize_client()]
    second = process.next(first["state"], [dataset(1), dataset(2)], states)
    whole = int(first["metrics"]["distributor"]["downlink_bytes"])
    assert whole < second["metrics"]["distributor"]["downlink_bytes"] <= 2 * whole
    assert sorted(second["client_states"][0]) == ["broadcast", "encoder", "local"]
    assert len({int(state["broadcast"]["round_num"]) for state in second["client_states"]}) == 1
    assert offset_of(second["client_states"][0]) != offset_of(first["client_states"][0]) != 0
    assert process.signature["broadcast_encoder"]["wire_ids"] == ["bfp/1"]


def test_a_model_that_declares_no_local_variables_is_refused(inprocess):
    with pytest.raises(ConfigError, match="no local trainable variables"):
        build(lambda: model_fn(local=False))


@pytest.mark.parametrize("epochs", [0, 1.5, True])
def test_local_epochs_are_a_whole_number(epochs):
    with pytest.raises(ConfigError, match="local_epochs"):
        build(local_epochs=epochs)
