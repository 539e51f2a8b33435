"""Entries of sums at given indices, on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import kernels
from fedplug.errors import ArgumentError, NonFiniteError


def _indices(*places):
    return np.array(places, np.int32)


def test_entries_are_gathered():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert kernels.gather(x, _indices(0, 5)).tolist() == [0, 5]
    for indices in (_indices(6), _indices(-1), _indices(1, 0)):
        with pytest.raises(ArgumentError, match="ind"):
            kernels.gather(x, indices)


def test_the_rest_stays_in_place_or_goes_where_it_is_wanted():
    delta, residual = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    out = np.empty(3)
    assert kernels.take_from_sum(delta, residual, _indices(0, 2), residual_out=out).tolist() == [11, 33]
    assert out.tolist() == [0, 22, 0]
    assert residual.tolist() == [10, 20, 30]
    assert kernels.take_from_sum(delta, residual, _indices(1)).tolist() == [22]
    assert residual.tolist() == [11, 0, 33]
    assert kernels.take_from_sum(delta, None, _indices(1), residual_out=out).tolist() == [2]
    assert out.tolist() == [1, 0, 3]


def test_an_invalid_update_is_refused_and_changes_nothing():
    delta, residual = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    for indices in (_indices(2), _indices(-1), _indices(1, 0), _indices(1, 1), np.array([0])):
        with pytest.raises(ArgumentError):
            kernels.take_from_sum(delta, residual, indices)
    with pytest.raises(ArgumentError, match="residual_out"):
        kernels.take_from_sum(delta, None, _indices(0))
    with pytest.raises(ArgumentError, match="must have the same number"):
        kernels.take_from_sum(delta, np.zeros(3), _indices(0))
    with pytest.raises(NonFiniteError) as refused:
        kernels.take_from_sum(np.array([np.inf, np.nan]), residual, _indices(0))
    assert refused.value.count == 2
    assert residual.tolist() == [10, 20]
