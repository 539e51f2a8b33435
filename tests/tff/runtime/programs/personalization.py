"""Fine-tunes the server's model on each client's data, and compares it there before and after."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

WEIGHTS = tff.to_type(collections.OrderedDict(kernel=(np.float32, [2, 1]), bias=(np.float32, [1])))
BATCH = tff.to_type(collections.OrderedDict(x=(np.float32, [None, 2]), y=(np.float32, [None, 1])))
DATA = tff.SequenceType(BATCH)


def loss_of(weights, batch):
    return tf.reduce_mean(tf.square(batch["x"] @ weights["kernel"] + weights["bias"] - batch["y"]))


@tff.tensorflow.computation(WEIGHTS, DATA)
def fine_tune(weights, data):
    def step(current, batch):
        with tf.GradientTape() as tape:
            tape.watch(list(current.values()))
            loss = loss_of(current, batch)
        gradients = tape.gradient(loss, current)
        return collections.OrderedDict((name, current[name] - 0.1 * gradients[name]) for name in current)

    return data.reduce(weights, step)


@tff.tensorflow.computation(WEIGHTS, DATA)
def evaluate(weights, data):
    return data.reduce(0.0, lambda total, batch: total + loss_of(weights, batch))


@tff.federated_computation(tff.FederatedType(WEIGHTS, tff.SERVER), tff.FederatedType(DATA, tff.CLIENTS))
def personalize(weights, data):
    received = tff.federated_broadcast(weights)
    tuned = tff.federated_map(fine_tune, (received, data))
    before = tff.federated_map(evaluate, (received, data))
    after = tff.federated_map(evaluate, (tuned, data))
    return tuned, before, after, tff.federated_mean(after)


def client(seed):
    x = np.random.default_rng(seed).normal(size=(12, 2)).astype(np.float32)
    examples = collections.OrderedDict(x=x, y=x[:, :1] - seed)
    return tf.data.Dataset.from_tensor_slices(examples).shuffle(12, seed=seed).repeat(2).batch(5)


def main():
    weights = collections.OrderedDict(kernel=np.ones([2, 1], np.float32), bias=np.zeros([1], np.float32))
    return personalize(weights, [client(seed) for seed in range(3)])
