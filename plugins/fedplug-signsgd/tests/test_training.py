"""The plugin in a training round: named by its expression, its state on the clients."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import fedplug

FEATURES, CLASSES, CLIENTS = 20, 10, 3


def make_model():
    model = tf.keras.Sequential([tf.keras.layers.InputLayer((FEATURES,)), tf.keras.layers.Dense(CLASSES)])
    return tff.learning.models.from_keras_model(
        model,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, FEATURES]), tf.TensorSpec([None], tf.int32)),
    )


def client_data(seed):
    random = np.random.default_rng(seed)
    x = random.standard_normal((8, FEATURES)).astype(np.float32)
    y = random.integers(0, CLASSES, 8).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


def test_clients_send_one_bit_per_weight_and_keep_what_that_misses():
    with fedplug.use_runtime("inprocess"):
        process = fedplug.process.build_weighted_fed_avg(
            make_model, tff.learning.optimizers.build_sgdm(0.1), encoder="signsgd", min_size=64
        )
        clients = [process.initialize_client() for _ in range(CLIENTS)]
        data = [client_data(seed) for seed in range(CLIENTS)]
        output = process.next(process.initialize(), data, clients)
    dense = 4 * FEATURES * CLASSES
    assert output["metrics"]["aggregator"]["uplink_bytes"] < CLIENTS * (
        dense / 32 + 200
    )  # 200: headers, the bias
    residuals = [client[0]["residual"] for client in output["client_states"]]
    assert all(np.any(residual != 0) for residual in residuals)
    assert not np.array_equal(residuals[0], residuals[1])
