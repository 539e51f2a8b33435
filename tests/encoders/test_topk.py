"""Tests top-k as an encoder: the entries sent, the residual, the bytes, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import ops
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


def leb128(number: int) -> bytes:
    """Encodes a number as LEB128: seven bits a byte, lowest first, high bit set on all bytes but the last."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + leb128(rest) if rest else bytes([low])


def spec_of(x: np.ndarray) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, x.dtype)


@given(FLOATS, st.integers(1, 70))
@settings(deadline=None)
def test_what_is_sent_and_what_is_kept_add_up_to_the_update(x: np.ndarray, count: int) -> None:
    encoder, spec = topk(count=count), spec_of(x)
    payload, state = encoder.encode(tf.constant(x), encoder.init_state(spec), ROUND)
    np.testing.assert_array_equal(encoder.decode(payload, spec) + state["residual"], x)
    assert len(payload["values"]) == min(count, len(x))


@given(FLOATS, st.integers(5, 20))
@settings(deadline=None)
def test_everything_arrives_after_enough_rounds_of_silence(x: np.ndarray, count: int) -> None:
    encoder, spec = topk(count=count), spec_of(x)
    state = encoder.init_state(spec)
    received = tf.zeros_like(x)
    for i in range(-(-len(x) // count)):
        payload, state = encoder.encode(tf.constant(x) if i == 0 else tf.zeros_like(x), state, ROUND)
        received = encoder.accumulate(received, payload, tf.constant(1.0), spec)
    np.testing.assert_array_equal(received, x)
    np.testing.assert_array_equal(state["residual"], np.zeros_like(x))


def test_without_error_feedback_there_is_no_state_and_the_rest_is_lost() -> None:
    encoder = topk(count=1, error_feedback=False)
    spec = tf.TensorSpec([3], tf.float32)
    assert encoder.init_state(spec) == {}
    assert not encoder.capabilities.needs_client_state
    payload, state = encoder.encode(tf.constant([1.0, -3.0, 2.0]), {}, ROUND)
    assert state == {}
    np.testing.assert_array_equal(encoder.decode(payload, spec), [0.0, -3.0, 0.0])


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


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64])
@pytest.mark.parametrize("shape", [(1,), (8, 9), (3, 4, 5)])
def test_the_wire_form_comes_back_and_has_the_length_it_promises(
    dtype: tf.DType, shape: tuple[int, ...]
) -> None:
    x = tf.cast(np.random.default_rng(0).normal(size=shape), dtype)
    encoder, spec = topk(0.1), tf.TensorSpec(shape, dtype)
    payload, _ = encoder.encode(x, encoder.init_state(spec), ROUND)
    body = encoder.to_wire(payload, spec)
    code = ops.encode_indices(payload["indices"], spec.shape.num_elements())
    assert len(body) == 1 + 1 + len(code) + len(payload["values"]) * dtype.size
    back = encoder.from_wire(body, spec)
    np.testing.assert_array_equal(back["indices"], payload["indices"])
    assert back["values"].numpy().tobytes() == payload["values"].numpy().tobytes()


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
    ("count", "message"),
    [
        (41, "lengths in a sparse payload do not fit"),
        (2**31 - 1, "lengths in a sparse payload do not fit"),
        (2**31, "lengths in a sparse payload are not in their fewest bytes, or too large"),
        (2**32 + 6, "lengths in a sparse payload are not in their fewest bytes, or too large"),
        (2**63, "lengths in a sparse payload cannot be read"),
    ],
)
def test_a_count_that_cannot_be_is_refused(count: int, message: str) -> None:
    body = leb128(count) + leb128(0) + bytes(20)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        topk(count=6).from_wire(tf.constant(list(body), tf.uint8), tf.TensorSpec([40], tf.float32))


def test_a_non_finite_value_on_the_wire_is_refused() -> None:
    encoder, spec = topk(count=1), tf.TensorSpec([4], tf.float32)
    payload, _ = encoder.encode(tf.constant([0.0, 0.0, 1.0, 0.0]), encoder.init_state(spec), ROUND)
    hostile = {**payload, "values": tf.constant([np.nan])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="a raw value is NaN or infinite"):
        encoder.from_wire(encoder.to_wire(hostile, spec), spec)


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


@pytest.mark.parametrize("stage", [TopK(0.01), TopK(count=5, error_feedback=False)])
def test_the_configuration_makes_an_equal_stage_and_an_equal_encoder(stage: TopK) -> None:
    assert TopK.from_config(stage.get_config()) == stage
    assert TopK(0.5) != stage
    encoder = Pipeline([stage])
    assert Pipeline.from_config(encoder.get_config()) == encoder
    assert topk(0.5) != encoder
