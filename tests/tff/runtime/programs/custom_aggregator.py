"""Trains with an aggregator of its own, which adapts the norm to which it clips updates."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


class AdaptiveClippingFactory(tff.aggregators.UnweightedAggregationFactory):
    """The mean of clipped updates; the norm follows the share of updates that were clipped."""

    def create(self, value_type):
        @tff.federated_computation
        def initialize():
            return tff.federated_value(np.float32(0.1), tff.SERVER)

        @tff.tensorflow.computation(value_type, np.float32)
        def clip(value, norm):
            clipped, actual = tf.clip_by_global_norm(tf.nest.flatten(value), norm)
            return tf.nest.pack_sequence_as(value, clipped), tf.cast(actual > norm, tf.float32)

        @tff.tensorflow.computation(np.float32, np.float32)
        def adapt(norm, share):
            return norm * tf.exp(0.2 * (share - 0.5))

        @tff.federated_computation(
            initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(norm, values):
            clipped, was_clipped = tff.federated_map(clip, (values, tff.federated_broadcast(norm)))
            share = tff.federated_mean(was_clipped)
            return tff.templates.MeasuredProcessOutput(
                tff.federated_map(adapt, (norm, share)), tff.federated_mean(clipped), share
            )

        return tff.templates.AggregationProcess(initialize, next_fn)


def model_fn():
    layer = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(3,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
    )


def client(seed):
    x = np.random.default_rng(seed).normal(size=(10, 3)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, seed * x[:, :1])).batch(4)


def main():
    process = tff.learning.algorithms.build_unweighted_fed_avg(
        model_fn, tff.learning.optimizers.build_sgdm(0.1), model_aggregator=AdaptiveClippingFactory()
    )
    state, metrics = process.initialize(), []
    for _ in range(3):
        output = process.next(state, [client(seed) for seed in range(4)])
        state = output.state
        metrics.append(output.metrics)
    return process.get_model_weights(state), metrics
