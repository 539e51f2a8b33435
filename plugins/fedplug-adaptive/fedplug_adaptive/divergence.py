"""The divergence of a client's model from the server's, by layer."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

__all__ = ["layer_divergences"]


def layer_divergences(
    client: Sequence[tf.Tensor], server: Sequence[tf.Tensor], layers: Sequence[int]
) -> tf.Tensor:
    """Returns the Kullback-Leibler divergence of each layer's normalized weights from the server's.

    A softmax over all weights of a layer makes them a distribution. The divergence of the client's P from the
    server's Q is ``sum(P log(P / Q))``.

    Args:
        client: The tensors of the client's model.
        server: The tensors of the server's model.
        layers: The layer number of each tensor, from 0.

    Returns:
        float32 ``[number of layers]``, each 0 or more and finite.
    """
    divergences = []
    for layer in range(max(layers) + 1):
        members = [position for position, number in enumerate(layers) if number == layer]
        p, q = (_log_softmax(_joined([model[i] for i in members])) for model in (client, server))
        divergences.append(_sum(tf.exp(p) * (p - q)))
    return tf.cast(tf.clip_by_value(tf.stack(divergences), 0, tf.float32.max), tf.float32)


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tf.cast(tensor, tf.float64), [-1]) for tensor in tensors], axis=0)


def _log_softmax(x: tf.Tensor) -> tf.Tensor:
    x -= tf.reduce_max(x)
    return x - tf.math.log(_sum(tf.exp(x)))


def _sum(x: tf.Tensor) -> tf.Tensor:
    """Sums a vector of static length by pairwise halves, so that the bits do not depend on threads."""
    while x.shape[0] > 1:
        half = (x.shape[0] + 1) // 2
        x = tf.pad(x, [[0, 2 * half - x.shape[0]]])
        x = x[:half] + x[half:]
    return x[0]
