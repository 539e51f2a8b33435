"""Trains with an encoder of fedplug inside the clipping and the mean of TFF."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import build_sum_factory


def model_fn():
    layer = tf.keras.layers.Dense(2, kernel_initializer="ones", input_shape=(8,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 8], tf.float32), tf.TensorSpec([None, 2], tf.float32)),
    )


def client(seed):
    x = np.random.default_rng(seed).normal(size=(10, 8)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x[:, :2])).shuffle(10, seed=seed).batch(4)


def main(folder):
    encoded = build_sum_factory("topk(0.25, error_feedback=False)", min_size=1, lowering="reference")
    clipped = tff.aggregators.clipping_factory(1.0, encoded)
    process = tff.learning.algorithms.build_unweighted_fed_avg(
        model_fn,
        tff.learning.optimizers.build_sgdm(0.1),
        model_aggregator=tff.aggregators.UnweightedMeanFactory(clipped),
    )
    state = process.initialize()
    for _ in range(2):
        output = process.next(state, [client(seed) for seed in range(3)])
        state = output.state
    return process.get_model_weights(state), output.metrics["aggregator"]
