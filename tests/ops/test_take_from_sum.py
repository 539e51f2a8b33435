"""The op for entries of sums gives the bits of its reference, in graphs and eagerly."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops

# Few sizes, as a reference is traced once for each.
SEEDS, SIZES = st.integers(0, 2**32), st.sampled_from([0, 1, 40, 300])


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


def _arrays(seed, size):
    random = np.random.default_rng(seed)
    indices = np.flatnonzero(random.random(size) < random.random()).astype(np.int32)
    return random.standard_normal(size), random.standard_normal(size), indices


@settings(deadline=None)
@given(seed=SEEDS, size=SIZES, flaw=st.sampled_from([None, None, "far", "negative", "again", np.nan, np.inf]))
def test_op_and_reference_give_the_same_bits_or_refuse_alike(agree, as_dtype, seed, size, flaw):
    delta, residual, indices = _arrays(seed, size)
    if isinstance(flaw, float) and size:
        delta[seed % size] = flaw
    elif isinstance(flaw, str):
        indices = np.append(indices, {"far": size, "negative": -1, "again": indices[-1:].sum()}[flaw])
    delta, residual = as_dtype(delta, residual)
    agree(ops.take_from_sum, delta, residual, indices.astype(np.int32))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_sum_that_is_not_finite_is_refused_where_all_are_looked_at(lowering, bad):
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        ops.take_from_sum([1.0, bad], [0.0, 0.0], [0], lowering=lowering)


def test_arguments_of_the_wrong_kind_are_refused_while_building(lowering):
    with pytest.raises(TypeError, match="delta must be float32 or float64"):
        ops.take_from_sum([1], [1], [0], lowering=lowering)
    with pytest.raises(ValueError, match="must be equal"):
        ops.take_from_sum([1.0], [1.0, 2.0], [0], lowering=lowering)
