"""Tests a whole model through an encoder: which tensors are compressed, and that tensors are not mixed up."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import Identity, ModelEncoder, TopK
from fedplug.errors import ConfigError

ROUND = tf.constant(0, tf.int32)
SPECS = [
    tf.TensorSpec([20, 10], tf.float32),
    tf.TensorSpec([10], tf.float32),
    tf.TensorSpec([100], tf.int32),
    tf.TensorSpec([], tf.float32),
]


def values() -> list[tf.Tensor]:
    rng = np.random.default_rng(0)
    return [tf.cast(rng.normal(scale=9, size=spec.shape), spec.dtype) for spec in SPECS]


def test_small_tensors_and_integers_are_left_alone() -> None:
    model = ModelEncoder(TopK(0.1), SPECS, min_size=64)
    assert [encoder.name for encoder in model.encoders] == ["pipeline", "identity", "identity", "identity"]
    assert [encoder.name for encoder in ModelEncoder(TopK(0.1), SPECS, min_size=0).encoders][:2] == [
        "pipeline",
        "pipeline",
    ]


def test_an_encoder_that_changes_the_structure_of_its_state_is_refused() -> None:
    class Forgetful(Identity):
        def init_state(self, spec: tf.TensorSpec) -> dict[str, tf.Tensor]:
            return {"memory": tf.zeros([])}

        def encode(self, x: tf.Tensor, state: object, round_num: tf.Tensor) -> object:
            return {"values": x}, {}

    model = ModelEncoder(Forgetful(), [tf.TensorSpec([100], tf.float32)])
    with pytest.raises(ConfigError, match=r"got a state with \['memory'\] and returned \[\]"):
        model.encode([tf.zeros([100])], model.init_state(), ROUND)


@pytest.mark.parametrize("min_size", [-1, 1.5, True])
def test_a_size_that_is_none_is_refused(min_size: object) -> None:
    with pytest.raises(ConfigError, match="min_size"):
        ModelEncoder(Identity(), SPECS, min_size=min_size)


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match="tensor 1 of the model has shape"):
        ModelEncoder(Identity(), [SPECS[0], tf.TensorSpec([None], tf.float32)])
