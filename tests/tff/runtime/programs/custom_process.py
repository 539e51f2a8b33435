"""Builds federated averaging by hand, as TFF's tutorial on algorithms of one's own."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

MODEL = tff.to_type([(np.float32, [3]), np.float32])
DATA = tff.SequenceType(tff.to_type((tff.TensorType(np.float32, [3]), np.float32)))


@tff.tensorflow.computation
def initial_model():
    return [tf.zeros([3]), tf.constant(0.5)]


@tff.tensorflow.computation(DATA, MODEL)
def client_update(data, model):
    weights, bias = tf.Variable(tf.zeros([3])), tf.Variable(0.0)

    @tf.function
    def train():
        weights.assign(model[0])
        bias.assign(model[1])
        for x, y in data:
            error = tf.reduce_sum(weights * x) + bias - y
            weights.assign_sub(0.05 * error * x)
            bias.assign_sub(0.05 * error)
        return [weights.read_value(), bias.read_value()]

    return train()


@tff.tensorflow.computation(DATA)
def number_of_examples(data):
    return tf.cast(data.reduce(0, lambda count, example: count + 1), tf.float32)


@tff.federated_computation
def initialize():
    return tff.federated_eval(initial_model, tff.SERVER)


@tff.federated_computation(tff.FederatedType(MODEL, tff.SERVER), tff.FederatedType(DATA, tff.CLIENTS))
def next_fn(model, data):
    trained = tff.federated_map(client_update, (data, tff.federated_broadcast(model)))
    return tff.federated_mean(trained, tff.federated_map(number_of_examples, data))


def client(seed):
    x = np.random.default_rng(seed).normal(size=(seed + 5, 3)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).shuffle(100, seed=seed)


def main():
    process = tff.templates.IterativeProcess(initialize, next_fn)
    models = [process.initialize()]
    for _ in range(3):
        models.append(process.next(models[-1], [client(seed) for seed in range(4)]))
    return models
