"""Compares the robust aggregators with slow and obvious NumPy, and tests hostile clients."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf
from fedplug_robust.krum import Krum
from fedplug_robust.order_statistics import Median, TrimmedMean
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug.encoders import Identity, ModelEncoder
from fedplug.tff.aggregators import Update

SPECS = (tf.TensorSpec([2, 2]), tf.TensorSpec([3]))
MODEL = ModelEncoder(Identity(), SPECS)
ROBUST = [Median(), TrimmedMean(0.3), Krum(3), Krum(3, selected=4)]

# No mean of these is a subnormal number, which TensorFlow would flush to zero.
magnitudes = st.floats(2.0**-100, 2.0**100, width=32)
finite = st.just(0.0) | magnitudes | magnitudes.map(lambda x: -x)
rounds = st.integers(1, 9).flatmap(lambda clients: hnp.arrays(np.float32, (clients, 7), elements=finite))


def aggregate(aggregator, updates):
    """The result for updates ``[clients, 7]`` as one vector."""
    accumulator = aggregator.zero(SPECS)
    for update in updates:
        tensors = [tf.constant(update[:4].reshape(2, 2)), tf.constant(update[4:])]
        buffers, _ = MODEL.encode(tensors, MODEL.init_state(), tf.constant(0))
        accumulator = aggregator.accumulate(accumulator, Update(MODEL, buffers), tf.constant(1.0))
    result, _ = aggregator.finish(accumulator, ())
    return np.concatenate([np.ravel(tensor) for tensor in result])


def trimmed_mean(updates, fraction):
    count = len(updates)
    left_out = min(math.ceil(Fraction(fraction) * count), (count - 1) // 2)
    middle = np.sort(updates.astype(np.float64), axis=0)[left_out : count - left_out]
    return middle.mean(axis=0).astype(np.float32)


def krum(updates, byzantine, selected):
    count = len(updates)
    byzantine = max(0, min(byzantine, (count - 3) // 2))
    distances = [[np.sum((a - b) ** 2) for b in updates] for a in updates.astype(np.float64)]
    scores = [
        sum(sorted(np.delete(row, i))[: max(count - byzantine - 2, 1)]) for i, row in enumerate(distances)
    ]
    best = sorted(range(count), key=scores.__getitem__)[: min(selected, count - byzantine)]
    return updates[sorted(best)].astype(np.float64).mean(axis=0).astype(np.float32)


@settings(deadline=None)
@given(rounds)
def test_the_median_is_that_of_numpy(updates):
    want = np.median(updates.astype(np.float64), axis=0).astype(np.float32)
    np.testing.assert_array_equal(aggregate(Median(max_clients=9), updates), want)


@settings(deadline=None)
@given(rounds, st.sampled_from(["0.0", "0.1", "0.25", "0.49"]))
def test_the_trimmed_mean_leaves_out_the_same_number_at_either_end(updates, fraction):
    got = aggregate(TrimmedMean(float(fraction), max_clients=9), updates)
    scale = np.abs(updates).max()
    np.testing.assert_allclose(got, trimmed_mean(updates, fraction), rtol=1e-6, atol=1e-12 * scale)


def test_the_share_left_out_is_meant_in_decimals():
    """Tests a fraction with rounding: 0.07 * 100 is slightly more than 7 in floating point."""
    updates = np.repeat(np.arange(100, dtype=np.float32)[:, np.newaxis], 7, axis=1)
    updates[7] = 0  # the smallest that is not left out
    want = trimmed_mean(updates, "0.07")
    np.testing.assert_allclose(aggregate(TrimmedMean(0.07, max_clients=100), updates), want, rtol=1e-6)


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_krum_averages_the_updates_nearest_to_the_others(count, byzantine, selected, seed):
    updates = np.random.default_rng(seed).normal(size=(count, 7)).astype(np.float32)
    got = aggregate(Krum(byzantine, selected=selected, max_clients=9), updates)
    np.testing.assert_allclose(got, krum(updates, byzantine, selected), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("aggregator", ROBUST, ids=repr)
@pytest.mark.parametrize("attack", [-1, 1e6, -1e30], ids=["sign-flipped", "scaled", "flipped and scaled"])
def test_three_of_ten_hostile_clients_cannot_move_the_result_away_from_the_honest_ones(aggregator, attack):
    honest = np.random.default_rng(0).normal(1, 0.1, size=(10, 7)).astype(np.float32)
    attacked = honest.copy()
    attacked[[0, 4, 9]] *= np.float32(attack)
    got = aggregate(aggregator, attacked)
    assert np.all((honest.min(axis=0) <= got) & (got <= honest.max(axis=0)))


def test_hostile_clients_that_agree_with_each_other_do_not_win_krum():
    honest = np.random.default_rng(0).normal(1, 0.1, size=(5, 7)).astype(np.float32)
    together = np.full((2, 7), -5, np.float32)
    got = aggregate(Krum(2), np.concatenate([together, honest]))
    assert any(np.array_equal(got, update) for update in honest)


def test_weights_are_ignored():
    assert not any(aggregator.weights_by_examples for aggregator in ROBUST)


def test_more_updates_than_rows_are_refused_when_accumulators_are_merged():
    aggregator = Median(max_clients=2)
    buffers, _ = MODEL.encode([tf.ones([2, 2]), tf.ones([3])], MODEL.init_state(), tf.constant(0))
    one = aggregator.accumulate(aggregator.zero(SPECS), Update(MODEL, buffers), tf.constant(1.0))
    two = aggregator.merge(one, one)
    with pytest.raises(tf.errors.InvalidArgumentError, match="room for the updates of 2 clients"):
        aggregator.merge(two, one)
