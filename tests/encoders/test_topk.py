"""Tests top-k as an encoder: the entries sent, the residual, the bytes, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug.encoders import Pipeline, TopK
from fedplug.errors import ConfigError
from fedplug.ops.lowering import use_lowering

ROUND = tf.constant(0, tf.int32)
FLOATS = hnp.arrays(np.float32, st.integers(1, 60), elements=st.integers(-9, 9).map(float))


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


@pytest.fixture(scope="module")
def in_graph(_lowering: None) -> object:
    """Reads a body in an optimized graph, where a badly written check can be removed."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)])
    def read(body: tf.Tensor) -> dict[str, tf.Tensor]:
        return topk(count=6).from_wire(body, tf.TensorSpec([40], tf.float32))

    return read


@given(data=st.data())
@settings(deadline=None)
def test_a_hostile_body_is_refused_or_is_a_valid_payload(in_graph: object, data: st.DataObject) -> None:
    x = np.arange(-20, 20).astype(np.float32)
    encoder, spec = topk(count=6), spec_of(x)
    payload, _ = encoder.encode(tf.constant(x), encoder.init_state(spec), ROUND)
    body = bytearray(encoder.to_wire(payload, spec).numpy().tobytes())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body
    read = data.draw(st.sampled_from([lambda b: encoder.from_wire(b, spec), in_graph]))
    try:
        payload = read(tf.constant(np.frombuffer(bytes(body), np.uint8)))
    except tf.errors.InvalidArgumentError:
        return
    indices = payload["indices"].numpy()
    assert len(indices) == len(payload["values"]) <= 40
    assert np.all(np.diff(indices) > 0)
    assert np.all((indices >= 0) & (indices < 40))
    assert np.all(np.isfinite(payload["values"]))


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
