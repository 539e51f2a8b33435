"""Divergences and the means weighted by them, against slow and obvious NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from fedplug_adaptive.layer_weights import DivergenceSoftmax, layer_divergences
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug.encoders import Identity, ModelEncoder
from fedplug.errors import ConfigError
from fedplug.tff.aggregators import Update

LAYERS = [0, 0, 1]
SPECS = (tf.TensorSpec([2, 2]), tf.TensorSpec([3]), tf.TensorSpec([2]), tf.TensorSpec([2]))
MODEL = ModelEncoder(Identity(), SPECS)

weights_of_a_model = hnp.arrays(np.float32, 9, elements=st.floats(-50, 50, width=32))


def split(flat):
    return [tf.constant(flat[:4].reshape(2, 2)), tf.constant(flat[4:7]), tf.constant(flat[7:9])]


def divergence(p, q):
    """KL of two layers' softmaxes, in float64."""
    p, q = (np.asarray(x, np.float64) - np.max(x) for x in (p, q))
    p, q = (x - np.log(np.exp(x).sum()) for x in (p, q))
    return float((np.exp(p) * (p - q)).sum())


def aggregate(aggregator, updates, reports, weights, adaptive=True, groups=()):
    """The resulting model and report. Each of ``groups`` begins an accumulator of its own."""
    parts = [aggregator.zero(SPECS)]
    for client, (update, report, weight) in enumerate(zip(updates, reports, weights, strict=True)):
        if client in groups:
            parts.append(aggregator.zero(SPECS))
        tensors = [*split(np.float32(update)), tf.constant(report, tf.float32)]
        buffers, _ = MODEL.encode(tensors, MODEL.init_state(), tf.constant(0))
        parts[-1] = aggregator.accumulate(parts[-1], Update(MODEL, buffers), tf.constant(weight, tf.float32))
    merged = parts[0]
    for part in parts[1:]:
        merged = aggregator.merge(merged, part)
    state = {**aggregator.init_state(SPECS), "adaptive": tf.constant(adaptive)}
    (*model, report), _ = aggregator.finish(merged, state)
    return np.concatenate([np.ravel(x) for x in model]), np.asarray(report)


@settings(deadline=None)
@given(weights_of_a_model, weights_of_a_model)
def test_the_divergence_of_a_layer_is_that_of_the_softmaxes_of_all_its_weights(client, server):
    want = [divergence(client[:7], server[:7]), divergence(client[7:], server[7:])]
    got = layer_divergences(split(client), split(server), LAYERS)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-9)


def test_the_divergence_of_huge_weights_is_finite_and_of_equal_ones_0():
    huge = np.float32([3e38, -3e38, 0, 1, 2, 3, 4, 3e38, -3e38])
    got = layer_divergences(split(huge), split(-huge), LAYERS)
    assert np.isfinite(got).all()
    assert (got.numpy() > 1e30).all()
    np.testing.assert_array_equal(layer_divergences(split(huge), split(huge), LAYERS), [0, 0])


clients = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float32, (n, 9), elements=st.floats(-2, 2, width=32)),
        hnp.arrays(np.float32, (n, 2), elements=st.floats(0, 4, width=32)),
        hnp.arrays(np.float32, n, elements=st.integers(1, 20)),
    )
)


@settings(deadline=None)
@given(clients, st.sampled_from([(), (1,), (1, 2, 3)]))
def test_the_streamed_softmax_is_the_softmax_of_all_clients(given_clients, groups):
    updates, reports, weights = given_clients
    got, report = aggregate(
        DivergenceSoftmax(LAYERS, temperature=0.5), updates, reports, weights, groups=groups
    )
    relative = weights[:, np.newaxis] * np.exp(-np.float64(reports) / 0.5)
    relative /= relative.sum(axis=0)
    by_entry = np.repeat(relative, [7, 2], axis=1)
    np.testing.assert_allclose(got, (by_entry * updates).sum(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(report, np.average(reports, axis=0, weights=weights), rtol=1e-4, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(clients)
def test_a_plain_round_is_the_mean_weighted_by_examples(given_clients):
    updates, reports, weights = given_clients
    got, _ = aggregate(DivergenceSoftmax(LAYERS), updates, reports, weights, adaptive=False)
    np.testing.assert_allclose(got, np.average(updates, axis=0, weights=weights), rtol=1e-4, atol=1e-5)


UPDATES = np.float32([[1] * 9, [3] * 9])


def test_the_softmax_has_no_weights_too_small_for_float32():
    got, _ = aggregate(DivergenceSoftmax(LAYERS, temperature=1e-6), UPDATES, [[9, 9], [9, 9.5]], [1, 1])
    np.testing.assert_allclose(got, [2] * 7 + [1] * 2)


def test_a_client_cannot_report_its_way_to_more_than_its_examples():
    got, _ = aggregate(DivergenceSoftmax(LAYERS, temperature=1.0), UPDATES, [[-1e30, 0], [0, 0]], [1, 1])
    np.testing.assert_array_equal(got, [2] * 9)


def test_used_without_its_process_it_says_where_it_belongs():
    with pytest.raises(ConfigError, match="build_adaptive_fed_avg"):
        DivergenceSoftmax([0, 0]).zero(SPECS)
