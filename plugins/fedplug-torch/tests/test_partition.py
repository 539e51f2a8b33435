"""The division of a model between ranks."""

from __future__ import annotations

import math

import numpy as np
import torch
from fedplug_torch.division import Part, partition
from hypothesis import given, settings
from hypothesis import strategies as st

shapes = st.lists(st.lists(st.integers(0, 40), max_size=3).map(tuple), min_size=1, max_size=12).map(
    lambda each: {f"p{place}": shape for place, shape in enumerate(each)}
)


@settings(deadline=None)
@given(shapes, st.integers(1, 20))
def test_every_element_has_one_owner_in_the_order_of_the_model(shapes, ranks):
    tensors, end = {}, 0
    for name, shape in shapes.items():
        tensors[name] = torch.arange(end, end + math.prod(shape)).reshape(shape)
        end += math.prod(shape)
    divided = partition(shapes, ranks)
    assert len(divided) == ranks
    parts = [part for owned in divided for part in owned]
    assert len({part.name for part in parts}) == len(parts)
    elements = [part.of(tensors[part.parameter]).flatten().numpy() for part in parts]
    np.testing.assert_array_equal(np.concatenate([*elements, []]), np.arange(end))


@settings(deadline=None)
@given(shapes, st.integers(1, 20))
def test_a_rank_owns_its_share_to_a_quarter_of_it_and_a_row(shapes, ranks):
    share = sum(map(math.prod, shapes.values())) / ranks
    largest_row = max(math.prod(shape[1:]) for shape in shapes.values())
    for owned in partition(shapes, ranks):
        size = sum(part.of(torch.empty(shapes[part.parameter])).numel() for part in owned)
        assert abs(size - share) <= share / 4 + largest_row


def test_only_parameters_that_are_too_large_are_divided():
    equal = dict.fromkeys("abcd", (100, 10))
    assert partition(equal, 2) == [[Part("a"), Part("b")], [Part("c"), Part("d")]]
    one_large = {"a": (10,), "b": (100, 10), "c": (10,)}
    assert partition(one_large, 2) == [[Part("a"), Part("b", (0, 50))], [Part("b", (50, 100)), Part("c")]]
    assert partition({"a": (1, 1000)}, 2) in ([[], [Part("a")]], [[Part("a")], []])
