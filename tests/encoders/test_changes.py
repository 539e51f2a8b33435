"""Tests the changed entries of a quantized tensor: with the others, they give the whole tensor."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.pipeline.changes import change_coder
from fedplug.errors import PayloadError
from fedplug.ops.lowering import use_lowering
from fedplug.ops.types import ArraySpec

SIZE = 300
ENCODERS = ["bfp(5)", "bfp(8) | rans", "qsgd(4, block_size=64)", "qsgd(8) | rans", "codebook(3)", "sign"]


def whole(expression, x, round_num=0):
    """The container of a tensor, the decoded tensor, and the coder of its changes."""
    spec = ArraySpec(x.shape, x.dtype)
    model = ModelEncoder(fedplug.encoder(expression), [spec], min_size=0)
    (buffer,), _ = model.encode([x], model.init_state(), round_num)
    return (
        np.frombuffer(buffer, np.uint8),
        model.decode([buffer])[0],
        change_coder(model.encoders[0], spec),
    )


def normal(seed, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal((SIZE // 3, 3)).astype(dtype)


@settings(deadline=None)
@given(st.sampled_from(ENCODERS), st.floats(0, 1), st.sampled_from([np.float32, np.float64]))
def test_a_client_with_the_other_entries_ends_with_the_bits_of_a_full_snapshot(expression, share, dtype):
    buffer, new, coder = whole(expression, normal(1, dtype))
    changed = np.random.default_rng(2).random(new.shape) < share
    old = np.where(changed, normal(3, dtype), new)
    np.testing.assert_array_equal(coder.decode(coder.encode(buffer, changed), old), new)


@pytest.mark.parametrize("lowering", ["fused", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("expression", ["bfp(8) | rans", "qsgd(4, block_size=64)", "sign"])
def test_graphs_write_and_read_the_same_bytes(expression, lowering):
    buffer, new, coder = whole(expression, normal(1))
    changed = normal(2) > 1
    buffer_spec = tf.TensorSpec([None], tf.uint8)

    @tf.function(input_signature=[buffer_spec, tf.TensorSpec(new.shape, tf.bool)], autograph=False)
    def encode(buffer, changed):
        return in_graph.encode(buffer, changed)

    @tf.function(input_signature=[buffer_spec, tf.TensorSpec(new.shape, tf.float32)], autograph=False)
    def decode(buffer, old):
        return in_graph.decode(buffer, old)

    encoder = fedplug.encoder(expression)
    if lowering == "reference" and encoder.capabilities.needs_op_library:
        pytest.skip("it has no reference")
    in_graph = change_coder(encoder, tf.TensorSpec(new.shape, tf.float32))
    with use_lowering(lowering):
        sent = encode(buffer, changed)
        np.testing.assert_array_equal(sent, coder.encode(buffer, changed))
        np.testing.assert_array_equal(decode(sent, np.where(changed, 7, new)), new)


def test_few_changes_are_few_bytes():
    buffer, _, coder = whole("bfp(8)", np.zeros((10_000, 1), np.float32) + 0.5)
    sizes = [
        len(coder.encode(buffer, np.arange(10_000).reshape(-1, 1) % step == 0)) for step in (10_000, 100, 10)
    ]
    assert sizes[0] < 150
    assert sizes[2] < len(buffer) / 5
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("expression", ["topk(0.1)", "identity", "float16"])
def test_an_encoder_without_a_symbol_for_every_entry_has_no_changes(expression):
    assert change_coder(fedplug.encoder(expression), ArraySpec((SIZE,), np.dtype(np.float32))) is None


@settings(deadline=None)
@given(st.sampled_from(ENCODERS), st.data())
def test_hostile_bodies_are_refused_or_stand_for_finite_numbers(expression, data):
    from fedplug.encoders import containers

    buffer, new, coder = whole(expression, normal(1))
    spec = ArraySpec(new.shape, new.dtype)
    body = np.array(containers.unframe(coder.encode(buffer, normal(2) > 0), coder.wire_id, spec))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body) - 1, 40)))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body
    try:
        got = coder.decode(containers.frame(body, coder.wire_id, spec), new)
    except PayloadError:
        return
    assert np.isfinite(got).all()
