"""Tells a non-finite update from that of a client without data.

TFF's client work replaces a non-finite update by zeros of weight zero, the same as a client without data.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

__all__ = ["weight_to_encode"]


def weight_to_encode(update_weight: tf.Tensor, dataset: tf.data.Dataset, *, by_examples: bool) -> tf.Tensor:
    """The weight under which `EncodedAggregation.encode` drops the update and counts it where it must.

    A client that has data and no weight had its update replaced; a NaN in place of the weight says so. One
    without data weighs nothing, also where TFF weighs all clients the same.

    Args:
        update_weight: Of TFF's client work, float32 scalar.
        dataset: Of the client.
        by_examples: Whether the weight is the number of examples. One above 0 then says that there are some,
            and the dataset is left alone: to begin it once more costs as much as to train on a batch.
    """

    def has_data() -> tf.Tensor:
        return dataset.take(1).reduce(False, lambda _, batch: True)

    with_data = tf.cond(update_weight > 0, lambda: True, has_data) if by_examples else has_data()
    replaced = with_data & (update_weight <= 0)
    return tf.where(replaced, np.float32(np.nan), tf.where(with_data, update_weight, np.float32(0)))
