"""Tests PowerSGD: the projection, warm start, error feedback and the bytes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.encoders.standalone.orthonormal import orthonormal_columns
from fedplug.encoders.standalone.powersgd import PowerSGD
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import ArraySpec

ROUND = tf.constant(0)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64], ids=lambda dtype: dtype.name)
def test_a_waiting_entry_keeps_growing(dtype):
    encoder, x = PowerSGD(2), tf.ones([20, 30], dtype)
    state = encoder.init_state(tf.TensorSpec(x.shape, dtype))
    state["residual"] += 4096  # neither 16-bit type has a step of 1 at this magnitude
    payload, after = encoder.encode(x, state, ROUND)
    sent = tf.cast(encoder.decode(payload, tf.TensorSpec(x.shape, dtype)), tf.float64)
    np.testing.assert_allclose(sent + tf.cast(after["residual"], tf.float64), 4097, rtol=2.0**-22)


def low_rank(rng, m, n, rank):
    return (rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))).astype(np.float32)


def encode_rounds(encoder, updates):
    """The decoded tensor of every round, and the last state."""
    spec = tf.TensorSpec(updates[0].shape, tf.float32)

    @tf.function(autograph=False)
    def one(x, state):
        payload, state = encoder.encode(x, state, ROUND)
        return encoder.decode(payload, spec), state

    state, decoded = encoder.init_state(spec), []
    for x in updates:
        sent, state = one(tf.constant(x), state)
        decoded.append(sent.numpy())
    return decoded, state


@pytest.mark.parametrize(("rank", "largest"), [(3, 3), (1, 4)])
def test_a_matrix_of_at_most_that_rank_arrives_whole(rank, largest):
    x = low_rank(np.random.default_rng(0), 50, 40, rank)
    (decoded,), state = encode_rounds(PowerSGD(largest), [x])
    np.testing.assert_allclose(decoded, x, atol=1e-4)
    np.testing.assert_allclose(state["residual"], 0, atol=1e-4)


def test_the_factors_of_the_same_matrix_converge_to_the_best_ones():
    """With warm start, every round is one step of a power iteration (here without error feedback)."""
    rng = np.random.default_rng(0)
    x = low_rank(rng, 60, 50, 2) + 0.1 * rng.standard_normal((60, 50)).astype(np.float32)
    u, s, v = np.linalg.svd(x)
    best = np.linalg.norm(x - (u[:, :2] * s[:2]) @ v[:2])
    encoder, spec = PowerSGD(2), tf.TensorSpec(x.shape, tf.float32)
    state, errors = encoder.init_state(spec), []
    for _ in range(3):
        payload, state = encoder.encode(tf.constant(x), {**state, "residual": tf.zeros_like(x)}, ROUND)
        errors.append(np.linalg.norm(x - encoder.decode(payload, spec)))
    assert errors[0] > 1.01 * best
    assert errors[-1] == pytest.approx(best, rel=1e-3)


def test_a_round_without_an_update_does_not_end_the_power_iteration():
    x = low_rank(np.random.default_rng(0), 50, 40, 2)
    decoded, _ = encode_rounds(PowerSGD(2), [np.zeros_like(x), x])
    np.testing.assert_array_equal(decoded[0], 0)
    np.testing.assert_allclose(decoded[1], x, atol=1e-4)


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_columns_become_orthonormal_or_zero_and_span_the_same_space(m, r, rank, seed):
    rng = np.random.default_rng(seed)
    p = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, r))
    q = orthonormal_columns(tf.constant(p)).numpy()
    gram = q.T @ q
    np.testing.assert_allclose(gram, np.diag(np.round(np.diag(gram))), atol=1e-9)
    np.testing.assert_allclose(q @ (q.T @ p), p, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [((100, 50), 2 * 150), ((3, 3, 16, 32), 2 * (144 + 32)), ((10, 4), 40), ((1000,), 1000)],
    ids=str,
)
def test_the_bytes_are_those_of_the_factors_where_that_saves_half(shape, numbers):
    spec, encoder = tf.TensorSpec(shape, tf.float32), PowerSGD(2)
    payload, _ = encoder.encode(tf.ones(shape), encoder.init_state(spec), ROUND)
    scale = 4 if numbers < np.prod(shape) else 0
    assert len(encoder.to_wire(payload, spec)) == 4 + scale + 4 * numbers


@pytest.mark.parametrize(
    "arguments",
    [{"rank": 0}, {"rank": 1.5}, {"min_ratio": 0.5}, {"min_ratio": float("inf")}, {"seed": -1}],
    ids=str,
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError, match=f"powersgd {next(iter(arguments))} is"):
        PowerSGD(**arguments)


SPEC = ArraySpec((10, 8), "float32")


def body_of(encoder):
    x = np.random.default_rng(0).standard_normal(SPEC.shape).astype(np.float32)
    return encoder.to_wire(encoder.encode(x, encoder.init_state(SPEC), 0)[0], SPEC)


@pytest.mark.parametrize(
    "encoder", [PowerSGD(2, min_ratio=1), PowerSGD(1, min_ratio=50)], ids=["rank", "whole"]
)
def test_another_rank_is_refused(encoder):
    body = body_of(PowerSGD(1, min_ratio=1))
    body = np.resize(body, body_of(encoder).size)
    with pytest.raises(PayloadError, match=r"a powersgd payload was not made by powersgd\("):
        encoder.from_wire(body, SPEC)


@pytest.mark.parametrize("rank", [5, 2**31, 2**32 - 1])
def test_ranks_that_no_encoder_sends_are_refused(rank):
    body = bytes(body_of(PowerSGD(4, min_ratio=1)))
    with pytest.raises(PayloadError, match=f"a powersgd payload has rank {rank}"):
        fedplug.decode(wire.frame(rank.to_bytes(4, "little") + body[4:], "powersgd/1", "float32", SPEC.shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [-1.0, -0.0])
def test_a_negative_scale_is_refused(dtype, scale):
    payload, _ = fedplug.codec("powersgd(1, min_ratio=1)").encode(np.ones((9, 9), dtype))
    container, scale = wire.unframe(payload), np.asarray(scale, dtype).tobytes()
    body = container.body[:4] + scale + container.body[4 + len(scale) :]
    with pytest.raises(PayloadError, match="the scale of a powersgd payload is negative"):
        fedplug.decode(wire.frame(body, "powersgd/1", container.dtype, container.shape))


def test_a_payload_of_two_bytes_is_too_short():
    with pytest.raises(PayloadError, match="too short to hold its rank"):
        PowerSGD.from_payload(np.zeros(2, np.uint8), SPEC)
