"""Trains on data sets with caches and seeded shuffles, which are made once for all rounds."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def examples(seed):
    x = np.random.default_rng(seed).normal(size=(20, 4)).astype(np.float32)
    return collections.OrderedDict(x=x, y=(x.sum(axis=1, keepdims=True) > 0).astype(np.float32))


def preprocess(dataset):
    augmented = dataset.map(lambda e: collections.OrderedDict(x=e["x"] * 2.0, y=e["y"]), num_parallel_calls=2)
    return augmented.cache().shuffle(20, seed=5).repeat(3).batch(6, drop_remainder=True).prefetch(1).take(8)


def model_fn():
    layers = [
        tf.keras.layers.Dense(3, "relu", kernel_initializer=tf.keras.initializers.GlorotUniform(1)),
        tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
    ]
    spec = collections.OrderedDict(x=tf.TensorSpec([None, 4]), y=tf.TensorSpec([None, 1]))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([tf.keras.layers.InputLayer((4,)), *layers]),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        input_spec=spec,
        metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],
    )


def main(folder):
    clients = tff.simulation.datasets.TestClientData({f"client {n}": examples(n) for n in range(3)})
    data = [preprocess(clients.create_tf_dataset_for_client(name)) for name in clients.client_ids]
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1, momentum=0.9),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    )
    state, metrics = process.initialize(), []
    for _ in range(3):
        output = process.next(state, data)
        state = output.state
        metrics.append(output.metrics)
    return process.get_model_weights(state), metrics
