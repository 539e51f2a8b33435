"""Distinguishes a non-finite update from the update of a client without data.

TFF's client work returns zeros of weight zero in both cases.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

__all__ = ["weight_to_encode"]


def weight_to_encode(update_weight: tf.Tensor, dataset: tf.data.Dataset, *, by_examples: bool) -> tf.Tensor:
    """Returns the weight for `EncodedAggregation.encode`: NaN for a non-finite update, 0 without data.

    If a client has data but no weight, TFF replaced its update.

    Args:
        update_weight: The weight from TFF's client work, a float32 scalar.
        dataset: The client's dataset.
        by_examples: Whether the weight is the number of examples. If it is above 0, the dataset is not read
            again, which would cost as much as training on a batch.
    """

    def has_data() -> tf.Tensor:
        return dataset.take(1).reduce(False, lambda _, batch: True)

    with_data = tf.cond(update_weight > 0, lambda: True, has_data) if by_examples else has_data()
    replaced = with_data & (update_weight <= 0)
    return tf.where(replaced, np.float32(np.nan), tf.where(with_data, update_weight, np.float32(0)))
