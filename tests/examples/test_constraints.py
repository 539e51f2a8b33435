"""Constraints hold at the end of a training, and a true one makes the result better."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(load_example):
    return load_example("constraints")


@pytest.fixture(scope="module")
def kernels(example):
    return {name: result.kernel for name, result in example.compare(rounds=30, seed=0).items()}


@pytest.mark.slow
def test_the_weights_obey_their_constraint_and_would_not_without(kernels) -> None:
    assert kernels["free"].min() < 0
    assert kernels["non-negative"].min() == 0
    assert np.linalg.norm(kernels["free"], axis=0).max() > 1.001
    assert np.linalg.norm(kernels["max-norm 1"], axis=0).max() < 1.001


def test_knowing_that_weights_are_not_negative_brings_them_closer_to_the_true_ones(example, kernels) -> None:
    true = example.true_kernel(seed=0)
    errors = {name: np.linalg.norm(kernel - true) for name, kernel in kernels.items()}
    assert errors["non-negative"] < 0.9 * errors["free"]
