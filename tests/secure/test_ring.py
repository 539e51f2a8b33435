"""Tests integers of a ring as bytes and in lanes, against Python's own whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedplug.errors import ArgumentError, PayloadError
from fedplug.secure import join_lanes, pack, split_lanes, unpack


@given(st.integers(1, 62), st.lists(st.integers(0, 2**62 - 1), max_size=20))
def test_packed_integers_are_one_number_of_so_many_bits(bits, numbers):
    numbers = [number % 2**bits for number in numbers]
    data = pack(numbers, bits)
    whole = sum(number << bits * place for place, number in enumerate(numbers))
    assert data == whole.to_bytes((bits * len(numbers) + 7) // 8, "little")
    assert unpack(data, len(numbers), bits).tolist() == numbers


@pytest.mark.parametrize("number", [-1, 16])
def test_an_integer_out_of_range_is_not_packed(number):
    with pytest.raises(ArgumentError, match=r"from 0 to 2\^4 - 1"):
        pack([number], 4)


@pytest.mark.parametrize("data", [b"", b"\x21\x03\x00", b"\x21\x83"])
def test_bytes_of_another_length_or_with_unused_bits_are_refused(data):
    with pytest.raises(PayloadError, match="3 integers of 4 bits"):
        unpack(data, 3, 4)


@given(st.integers(2, 15), st.integers(1, 4), st.integers(1, 5), st.integers(0, 9), st.randoms())
def test_sums_of_lanes_are_sums_of_integers(bits, lanes, clients, count, random):
    limit = (2 ** (bits - 1) - 1) // clients
    vectors = [[random.randint(-limit, limit) for _ in range(count)] for _ in range(clients)]
    joined = [join_lanes(vector, bits, lanes) for vector in vectors]
    assert all(0 <= number < 2 ** (bits * lanes) for each in joined for number in each.tolist())
    total = [
        sum(column) % 2 ** (bits * lanes) for column in zip(*(each.tolist() for each in joined), strict=True)
    ]
    assert split_lanes(total, bits, lanes, count).tolist() == [sum(c) for c in zip(*vectors, strict=True)]


def test_lanes_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="64 bits do not fit"):
        join_lanes([1], bits=16, lanes=4)
    with pytest.raises(ArgumentError, match="a lane of 4 bits"):
        join_lanes([8], bits=4, lanes=2)
    with pytest.raises(ArgumentError, match="take 2 integers, not 1"):
        split_lanes(np.zeros(1, np.int64), bits=4, lanes=2, count=3)
