"""The partitions: disjoint, complete, as skewed as was asked for, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug.errors import ConfigError
from fedplug.tff.experiment.data import partitions

LABELS = np.repeat(np.arange(10), 100)
EVERY = {
    "dirichlet": lambda seed: partitions.by_dirichlet(LABELS, 20, 0.3, seed),
    "classes": lambda seed: partitions.by_classes(LABELS, 20, 2, seed),
    "iid": lambda seed: partitions.iid(len(LABELS), 20, seed),
}


@pytest.mark.parametrize("split", EVERY.values(), ids=EVERY)
def test_every_example_goes_to_exactly_one_client(split) -> None:
    parts = split(0)
    assert len(parts) == 20
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(1000))


@pytest.mark.parametrize("split", EVERY.values(), ids=EVERY)
def test_the_seed_decides(split) -> None:
    one, same, other = (split(seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_small_concentration_skews_the_labels_and_a_large_one_does_not() -> None:
    def share_of_the_commonest_label(concentration: float) -> float:
        parts = partitions.by_dirichlet(LABELS, 10, concentration, seed=0)
        return float(np.mean([np.bincount(LABELS[part]).max() / len(part) for part in parts]))

    assert share_of_the_commonest_label(0.3) > 0.3
    assert share_of_the_commonest_label(1000.0) < 0.15


def test_a_client_has_examples_of_as_many_classes_as_it_has_shards() -> None:
    for part in partitions.by_classes(LABELS, 50, 2, seed=0):  # 100 shards of 10 examples, ten a class
        assert len(part) == 20
        assert len(np.unique(LABELS[part])) <= 2


def test_iid_parts_differ_by_one_example_at_most() -> None:
    assert {len(part) for part in partitions.iid(103, 10, seed=0)} == {10, 11}


def test_given_ids_own_their_examples_and_are_text() -> None:
    found = partitions.given(np.array([7, 30, 7, 5]))
    assert {name: part.tolist() for name, part in found.items()} == {"30": [1], "5": [3], "7": [0, 2]}


def test_the_same_fraction_of_every_group_is_held_out_and_none_loses_all() -> None:
    groups = np.array([0] * 100 + [1] * 10 + [2])
    train, test = partitions.hold_out(groups, 0.2, seed=0)
    assert sorted([*train, *test]) == list(range(111))
    assert np.bincount(groups[test], minlength=3).tolist() == [20, 2, 0]
    assert partitions.hold_out(groups[-1:], 0.99, seed=0)[0].tolist() == [0]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            lambda: partitions.by_dirichlet(LABELS[::10], 90, 0.3, 0),
            "use fewer clients or a larger dirichlet",
        ),
        (lambda: partitions.by_classes(LABELS, 501, 2, 0), "1000 examples for 501 clients .* 1002 shards"),
        (lambda: partitions.iid(5, 6, 0), "clients is 6; it must be at most the number of examples, 5"),
    ],
)
def test_too_many_clients_are_refused(split, message) -> None:
    with pytest.raises(ConfigError, match=message):
        split()
