"""Trains with a proximal term and Adam on the server, on clients that differ much."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def build_model():
    @tf.function
    def predict(weights, x, training):
        (kernel, bias), _ = weights
        return x @ kernel + bias

    @tf.function
    def loss(output, label, sample_weight=None):
        return tf.reduce_mean(tf.square(output - label))

    return tff.learning.models.FunctionalModel(
        initial_weights=((np.full([4, 1], 0.1, np.float32), np.zeros([1], np.float32)), ()),
        predict_on_batch_fn=predict,
        loss_fn=loss,
        input_spec=(tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
    )


def client(seed):
    x = np.random.default_rng(seed).normal(size=(5 * seed + 3, 4)).astype(np.float32)
    target = x @ np.full([4, 1], seed, np.float32)
    return tf.data.Dataset.from_tensor_slices((x, target)).shuffle(50, seed=seed).batch(4)


def main(folder):
    process = tff.learning.algorithms.build_weighted_fed_prox(
        build_model(),
        proximal_strength=0.5,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.05),
        server_optimizer_fn=tff.learning.optimizers.build_adam(0.1),
    )
    state, history = process.initialize(), collections.OrderedDict()
    data = [client(seed) for seed in range(4)]
    for round_num in range(3):
        output = process.next(state, data[round_num:] + data[:1])
        state = output.state
        history[f"round {round_num}"] = output.metrics
    return process.get_model_weights(state), history
