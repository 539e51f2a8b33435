"""Tests the container inside graphs: it has the same bytes and the same refusals as `fedplug.wire`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import wire
from fedplug.encoders import containers
from fedplug.ops.lowering import use_lowering

SPEC = tf.TensorSpec([3, 5], tf.float32)


@pytest.fixture(params=["fused", "reference"], autouse=True, scope="module")
def _lowering(request: pytest.FixtureRequest) -> object:
    with use_lowering(request.param):
        yield


def as_tensor(data: bytes) -> tf.Tensor:
    return tf.constant(np.frombuffer(data, np.uint8))


@pytest.mark.parametrize(
    ("wire_id", "dtype", "shape", "expected"),
    [
        ("sign/1", "float32", (3, 5), SPEC),
        ("sparse/1", "float64", (3, 5), SPEC),
        ("sparse/1", "float32", (5, 3), SPEC),
        ("sparse/2", "float32", (), tf.TensorSpec([], tf.float32)),  # the last byte of the header differs
    ],
)
def test_a_payload_for_something_else_is_refused(
    wire_id: str, dtype: str, shape: tuple[int, ...], expected: tf.TensorSpec
) -> None:
    buffer = as_tensor(wire.frame(b"body", wire_id, dtype, shape))
    with pytest.raises(tf.errors.InvalidArgumentError, match="made by another encoder or for another tensor"):
        containers.unframe(buffer, "sparse/1", expected)
