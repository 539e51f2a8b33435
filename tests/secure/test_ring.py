"""Tests integers of a ring as bytes, against Python's own whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedplug.errors import ArgumentError, PayloadError
from fedplug.secure import pack, unpack


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


@pytest.mark.parametrize("number", [1.5, 2.0, True, "1", 2**70])
def test_only_integers_are_packed(number):
    with pytest.raises(ArgumentError, match="pack takes integers"):
        pack([number], 4)


def test_integers_above_int64_are_not_taken_for_negative_ones():
    with pytest.raises(ArgumentError, match=r"from 0 to 2\^62 - 1"):
        pack(np.array([2**63 + 1], np.uint64), 62)


@pytest.mark.parametrize("data", [b"", b"\x21\x03\x00", b"\x21\x83"])
def test_bytes_of_another_length_or_with_unused_bits_are_refused(data):
    with pytest.raises(PayloadError, match="3 integers of 4 bits"):
        unpack(data, 3, 4)
