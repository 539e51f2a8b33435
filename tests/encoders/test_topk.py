"""Tests top-k as an encoder: the entries sent, the residual, the bytes, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.encoders import Pipeline, TopK
from fedplug.errors import ConfigError
from fedplug.ops.lowering import use_lowering

ROUND = tf.constant(0, tf.int32)


@pytest.fixture(params=["fused", "reference"], autouse=True, scope="module")
def _lowering(request: pytest.FixtureRequest) -> object:
    with use_lowering(request.param):
        yield


def topk(*arguments: float, **options: object) -> Pipeline:
    """The sparsifier followed by the default stages."""
    return Pipeline([TopK(*arguments, **options)])


def spec_of(x: np.ndarray) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, x.dtype)


@pytest.mark.parametrize(
    ("fraction", "size", "entries"),
    [
        (0.01, 10000, 100),
        (0.01, 49, 1),
        (0.01, 151, 2),
        (0.4, 800, 320),
        (1.0, 7, 7),
        (1e-9, 5, 1),
        (0.5, 0, 0),
    ],
)
def test_a_fraction_keeps_its_share_of_entries_and_at_least_one(
    fraction: float, size: int, entries: int
) -> None:
    assert TopK(fraction).sparsity.of_size(size) == entries


def test_one_percent_of_a_large_tensor_takes_about_five_bytes_an_entry() -> None:
    x = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    encoder, spec = topk(0.01), spec_of(x)
    payload, _ = encoder.encode(tf.constant(x), encoder.init_state(spec), ROUND)
    assert 5.0 < len(encoder.to_wire(payload, spec)) / 1000 < 5.1


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"fraction": 0.1, "count": 3},
        {"fraction": 0.0},
        {"fraction": 1.1},
        {"fraction": float("nan")},
        {"fraction": "0.1"},
        {"fraction": True},
        {"count": 0},
        {"count": 2.5},
        {"fraction": 0.1, "error_feedback": 1},
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="topk"):
        TopK(**arguments)
