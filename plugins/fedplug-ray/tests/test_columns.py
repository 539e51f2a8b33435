"""Clients' values of a block travel to a coordinator packed, and are the same there."""

from __future__ import annotations

from fedplug_ray.runtime import columns, messages, shelves
from hypothesis import given
from hypothesis import strategies as st

SHELVES = [shelves.Shelf(None, number) for number in range(3)]
VALUES = st.one_of(
    st.builds(messages.OnWorker, st.sampled_from([abs, len]), st.tuples(st.integers())),
    st.builds(shelves.OnShelf, st.sampled_from(SHELVES), st.integers(0, 600)),
    st.builds(messages.Given, st.binary(max_size=3)),
    st.builds(object),  # a reference of Ray's
)


@given(st.lists(VALUES, max_size=40))
def test_packed_values_keep_their_order(values):
    assert columns.unpack(columns.pack(values)) == values


def test_neighbours_share_common_parts():
    (first, second), calls = SHELVES[:2], [messages.OnWorker(abs, (number,)) for number in range(500)]
    places = [shelves.OnShelf(shelf, number) for shelf in (first, second) for number in range(250)]
    assert len(columns.pack(calls)) == 1
    assert len(columns.pack(places)) == 2


def test_functions_of_one_kind_are_distinguished():
    one, other = [].append, [].append
    packed = columns.pack([messages.OnWorker(one, ()), messages.OnWorker(other, ())])
    assert [value.function for value in columns.unpack(packed)] == [one, other]
