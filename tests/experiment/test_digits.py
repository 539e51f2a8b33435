"""The digits split: disjoint, complete, skewed, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug.errors import ConfigError
from fedplug.experiment.config import DataConfig
from fedplug.experiment.digits import load_digits, split_by_dirichlet

LABELS = np.repeat(np.arange(10), 100)


def test_every_example_goes_to_exactly_one_client() -> None:
    parts = split_by_dirichlet(LABELS, 20, 0.3, seed=0)
    assert sorted(np.concatenate(parts)) == list(range(1000))


def test_a_small_concentration_skews_the_labels_and_a_large_one_does_not() -> None:
    def share_of_the_commonest_label(concentration: float) -> float:
        parts = split_by_dirichlet(LABELS, 10, concentration, seed=0)
        return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))

    assert share_of_the_commonest_label(0.3) > 0.3
    assert share_of_the_commonest_label(1000.0) < 0.15


def test_the_seed_decides() -> None:
    one, same, other = (split_by_dirichlet(LABELS, 5, 0.3, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_too_many_clients_are_refused() -> None:
    with pytest.raises(ConfigError, match="use fewer clients or a larger dirichlet"):
        split_by_dirichlet(LABELS[::10], 90, 0.3, seed=0)


@pytest.mark.needs("sklearn")
def test_the_images_are_the_1797_digits_with_a_held_out_test_set() -> None:
    data = load_digits(DataConfig(), seed=0)
    assert len(data.clients) == 40
    assert len(data.test.labels) == 360
    assert sum(len(c.labels) for c in data.clients.values()) == 1797 - 360
    assert data.test.images.shape == (360, 8, 8, 1)
    assert data.test.images.dtype == np.float32
    assert 0 <= data.test.images.min() < data.test.images.max() == 1
