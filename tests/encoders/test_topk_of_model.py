"""Tests `topk(..., scope="model")`: a selection across tensors, and a payload for each."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.encoders import ModelEncoder, Rules, TopK
from fedplug.errors import ConfigError
from fedplug.ops.types import ArraySpec

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=4)


def model_of(encoder, shapes, dtypes=(np.float32,) * 4):
    specs = [ArraySpec(tuple(shape), np.dtype(dtypes[i]), f"t{i}") for i, shape in enumerate(shapes)]
    return ModelEncoder(encoder, specs, min_size=0)


def update(model, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 9, spec.shape).astype(spec.dtype) for spec in model.specs]


@settings(deadline=None)
@given(sizes=SIZES, count=st.integers(1, 40), seed=st.integers(0, 99))
def test_the_largest_entries_of_all_tensors_are_sent_and_the_others_kept(sizes, count, seed):
    model = model_of(TopK(count=count, scope="model"), [[size] for size in sizes])
    xs = update(model, seed)
    buffers, states = model.encode(xs, model.init_state(), 0)
    sent = np.concatenate(model.decode(buffers))
    flat = np.concatenate(xs)
    largest = sorted(range(flat.size), key=lambda i: (-abs(flat[i]), i))[:count]
    np.testing.assert_array_equal(np.flatnonzero(sent), [i for i in sorted(largest) if flat[i]])
    np.testing.assert_array_equal(sent + np.concatenate([s["residual"] for s in states]), flat)


def test_a_fraction_is_of_all_elements():
    model = model_of(TopK(0.1, scope="model"), [[90], [10, 11]])
    buffers, _ = model.encode(update(model), model.init_state(), 0)
    assert sum(int(np.count_nonzero(tensor)) for tensor in model.decode(buffers)) == 20


def test_a_tensor_of_small_numbers_may_send_nothing_until_its_turn_comes():
    model = model_of(TopK(count=1, scope="model"), [[2], [2]])
    states, received = model.init_state(), []
    for x in (np.float32([[5, 3], [1, 2]]), *[np.zeros((2, 2), np.float32)] * 3):
        buffers, states = model.encode(list(x), states, 0)
        received.append([tensor.tolist() for tensor in model.decode(buffers)])
    assert received == [
        [[5.0, 0.0], [0.0, 0.0]],
        [[0.0, 3.0], [0.0, 0.0]],
        [[0.0, 0.0], [0.0, 2.0]],
        [[0.0, 0.0], [1.0, 0.0]],
    ]


def test_each_rule_has_entries_of_its_own():
    shared = TopK(count=3, scope="model")
    model = model_of(Rules({"t[01]": shared, "t2": TopK(count=3, scope="model")}), [[20], [20], [20]])
    decoded = model.decode(model.encode(update(model), model.init_state(), 0)[0])
    counts = [int(np.count_nonzero(tensor)) for tensor in decoded]
    assert (counts[0] + counts[1], counts[2]) == (3, 3)


@pytest.mark.parametrize(
    "dtypes",
    [(ml_dtypes.bfloat16, np.float32), (np.half, ml_dtypes.bfloat16), (np.float32, np.float64)],
)
def test_tensors_may_be_of_several_dtypes(dtypes):
    """Small whole numbers are exact in every dtype, so one dtype for all selects the same entries."""
    mixed = model_of(TopK(count=9, scope="model"), [[40], [40]], dtypes)
    alike = model_of(TopK(count=9, scope="model"), [[40], [40]])
    states, expected = mixed.init_state(), alike.init_state()
    for seed in range(3):
        buffers, states = mixed.encode(update(mixed, seed), states, 0)
        wanted, expected = alike.encode(update(alike, seed), expected, 0)
        for got, like, spec in zip(mixed.decode(buffers), alike.decode(wanted), mixed.specs, strict=True):
            assert got.dtype == spec.dtype
            np.testing.assert_array_equal(got.astype(np.float32), like)
        for got, like in zip(states, expected, strict=True):
            np.testing.assert_array_equal(got["residual"].astype(np.float32), like["residual"])


def test_an_unknown_scope_is_refused():
    with pytest.raises(ConfigError, match="topk scope is 'layer'; it must be one of tensor, model"):
        TopK(0.1, scope="layer")
