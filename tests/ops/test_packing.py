"""Packing of numbers of a few bits, compared with Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops import pack, packed_size, unpack

bits_and_codes = st.integers(1, 8).flatmap(
    lambda bits: st.tuples(st.just(bits), st.lists(st.integers(0, 2**bits - 1), max_size=40))
)


def as_integer(codes, bits):
    """The packed bytes of one long little-endian integer."""
    number = sum(code << (bits * i) for i, code in enumerate(codes))
    return number.to_bytes(-(-len(codes) * bits // 8), "little")


@settings(deadline=None)
@given(bits_and_codes)
def test_the_bytes_are_those_of_one_long_integer_and_are_read_back(example):
    bits, codes = example
    for array in (np.array, tf.constant):
        packed = pack(array(codes, "uint8"), bits)
        assert bytes(np.asarray(packed)) == as_integer(codes, bits)
        assert len(packed) == packed_size(len(codes), bits)
        assert np.asarray(unpack(packed, len(codes), bits, "codes")).tolist() == codes


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(0, 12), st.binary(max_size=12))
def test_any_bytes_are_refused_or_stand_for_exactly_one_vector(bits, count, data):
    try:
        codes = unpack(tf.constant(list(data), tf.uint8), count, bits, "codes")
    except tf.errors.InvalidArgumentError:
        assert len(data) != packed_size(count, bits) or int.from_bytes(data, "little") >> (bits * count)
        return
    assert bytes(pack(codes, bits).numpy()) == data


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_an_optimized_graph_refuses_a_wrong_length_too(bits):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
    def read(data):
        return tf.reshape(unpack(data, 16, bits, "the codes"), [4, 4])

    assert read(tf.zeros([2 * bits], tf.uint8)).shape == [4, 4]
    for wrong in (2 * bits - 1, 2 * bits + 1, 4 * bits):
        with pytest.raises(tf.errors.InvalidArgumentError):
            read(tf.zeros([wrong], tf.uint8))


def test_sizes_near_the_largest_tensor_do_not_overflow():
    assert int(packed_size(tf.constant(2**31 - 1), 8)) == 2**31 - 1
    assert int(packed_size(tf.constant(2**31 - 1), 1)) == 2**28


def test_a_part_of_an_array_is_packed_like_its_copy():
    codes = np.arange(64, dtype=np.uint8) % 16
    assert pack(codes[::2], 4).tobytes() == pack(codes[::2].copy(), 4).tobytes()
    assert unpack(pack(codes, 4)[::-1], 64, 4, "codes").size == 64


def test_a_number_that_does_not_fit_is_refused_instead_of_cut():
    with pytest.raises(ArgumentError, match="more than 3 bits"):
        pack(np.uint8([1, 8]), 3)
    with pytest.raises(ArgumentError, match="does not fit uint8"):
        pack(np.array([1, 256]), 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more bits"):
        pack(tf.constant([1, 8], tf.uint8), 3)


def test_an_error_names_the_bytes_and_comes_before_memory_is_allocated():
    with pytest.raises(PayloadError, match="the levels have the wrong length, 2"):
        unpack(np.zeros(2, np.uint8), 2**62, 8, "the levels")
    with pytest.raises(PayloadError, match="the levels have unused bits that are set"):
        unpack(np.uint8([255]), 1, 4, "the levels")


@pytest.mark.parametrize("array", [np.zeros, tf.zeros], ids=["arrays", "tensors"])
@pytest.mark.parametrize("bits", [0, 9, -1])
def test_other_bits_than_1_to_8_are_refused(array, bits):
    with pytest.raises(ValueError, match="bits"):
        pack(array([8], "uint8"), bits)
