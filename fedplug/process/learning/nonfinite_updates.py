"""Tells a non-finite update from that of a client without data.

TFF's client work replaces a non-finite update by zeros of weight zero, the same as a client without data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

__all__ = ["build_has_data", "weight_to_encode"]


def build_has_data(data_type: tff.SequenceType) -> Any:
    """``(D* -> bool)``: whether a client's data set has anything in it."""

    @tff.tensorflow.computation(data_type)
    def has_data(dataset: Any) -> Any:
        return dataset.take(1).reduce(False, lambda _, batch: True)

    return has_data


def weight_to_encode(update_weight: tf.Tensor, with_data: tf.Tensor) -> tf.Tensor:
    """The weight under which `EncodedAggregation.encode` drops the update and counts it where it must.

    A client that has data and no weight had its update replaced; a NaN in place of the weight says so. One
    without data weighs nothing, also where TFF weighs all clients the same.

    Args:
        update_weight: Of TFF's client work, float32 scalar.
        with_data: Whether the client has data, bool scalar.
    """
    replaced = with_data & (update_weight <= 0)
    return tf.where(replaced, np.float32(np.nan), tf.where(with_data, update_weight, np.float32(0)))
