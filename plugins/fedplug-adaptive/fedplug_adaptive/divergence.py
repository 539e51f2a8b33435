"""How far a client's model is from the server's, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

__all__ = ["layer_divergences"]


def layer_divergences(
    client: Sequence[tf.Tensor], server: Sequence[tf.Tensor], layers: Sequence[int]
) -> tf.Tensor:
    """The Kullback-Leibler divergence of each layer's normalized weights from those of the server.

    The weights of a layer, normalized by a softmax over all of them, are a distribution; the divergence of
    the client's P from the server's Q is ``sum(P log(P / Q))``.

    Args:
        client: The tensors of one model.
        server: Those of another.
        layers: For each tensor the number of the layer it belongs to, 0 up.

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
    """Of a vector of known length, halves added to halves: its bits do not depend on threads."""
    while x.shape[0] > 1:
        half = (x.shape[0] + 1) // 2
        x = tf.pad(x, [[0, 2 * half - x.shape[0]]])
        x = x[:half] + x[half:]
    return x[0]
