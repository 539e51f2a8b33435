"""The set-up, the form of the model and the receipts, which client and server of SecAgg+ both derive."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord
from flwr.common.secure_aggregation.secaggplus_constants import Key
from numpy.typing import NDArray

from fedplug.encoders.standalone.sharedk import SharedK
from fedplug_flower.differences import read

__all__ = ["receipt_of", "setup_of", "zeros_like"]


def setup_of(encoder: SharedK) -> dict[str, int | float]:
    """Returns the set-up with which SecAgg+ adds integers from -L to L exactly.

    Its quantizer multiplies a float by ``target_range / (2 * clipping_range)``, which is 1, and its weights
    are ``num_examples / max_weight``, which is 1 for one example.
    """
    return {
        Key.CLIPPING_RANGE: float(encoder.limit),
        Key.TARGET_RANGE: 2 * encoder.limit,
        Key.MOD_RANGE: 2**encoder.bits,
        Key.MAX_WEIGHT: 1.0,
    }


def zeros_like(model: ArrayRecord) -> dict[str, NDArray[np.generic]]:
    """Returns zeros with the shapes of a model; a strategy may change its dtype, so they are float32."""
    return {name: np.zeros(read(name, array).shape, np.float32) for name, array in model.items()}


def receipt_of(round_num: int, node: int) -> str:
    """Returns the name of a node's update in a training. It says nothing about its numbers."""
    return f"{round_num}-{node}"
