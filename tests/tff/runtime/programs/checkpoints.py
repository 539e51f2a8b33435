"""Stops a training after two rounds, and resumes it from the files of a state manager."""

import asyncio

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def model_fn():
    layer = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(3,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
    )


def client(seed):
    x = np.random.default_rng(seed).normal(size=(30, 3)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(30, seed=seed).batch(4)


def train(process, folder, rounds):
    """Trains up to a round, from the last saved one."""
    saved = tff.program.FileProgramStateManager(folder)
    loop = asyncio.new_event_loop()
    state, done = loop.run_until_complete(saved.load_latest(process.initialize()))
    if state is None:
        state, done = process.initialize(), 0
    data = [client(seed) for seed in range(3)]
    for round_num in range(done, rounds):
        state = process.next(state, data).state
        loop.run_until_complete(saved.save(state, round_num + 1))
    loop.close()
    return process.get_model_weights(state).trainable


def main(folder):
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1), tff.learning.optimizers.build_sgdm(1.0, 0.9)
    )
    train(process, folder / "resumed", 2)
    resumed, uninterrupted = (train(process, folder / name, 4) for name in ("resumed", "uninterrupted"))
    for ours, theirs in zip(resumed, uninterrupted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return resumed
