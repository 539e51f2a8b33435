"""Evaluates the model of every round on other clients, with metrics that need more than a mean."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

SPEC = (tf.TensorSpec([None, 6], tf.float32), tf.TensorSpec([None], tf.int32))


def model_fn():
    initial = tf.keras.initializers.GlorotUniform
    hidden = tf.keras.layers.Dense(4, "relu", kernel_initializer=initial(1))
    dense = tf.keras.layers.Dense(3, kernel_initializer=initial(3))
    layers = [tf.keras.layers.InputLayer((6,)), hidden, dense]
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential(layers),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=SPEC,
        metrics=[
            tf.keras.metrics.SparseCategoricalAccuracy(),
            tf.keras.metrics.SparseTopKCategoricalAccuracy(2),
        ],
    )


def client(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(15, 6)).astype(np.float32), rng.integers(0, 3, 15).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(5)


def main(folder):
    training = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.2)
    )
    evaluation = tff.learning.algorithms.build_fed_eval(model_fn)
    state, evaluated = training.initialize(), evaluation.initialize()
    history = collections.OrderedDict()
    for round_num in range(2):
        output = training.next(state, [client(seed) for seed in range(3)])
        state = output.state
        evaluated = evaluation.set_model_weights(evaluated, training.get_model_weights(state))
        measured = evaluation.next(evaluated, [client(seed) for seed in (7, 8)])
        evaluated = measured.state
        history[f"round {round_num}"] = (output.metrics, measured.metrics)
    return history
