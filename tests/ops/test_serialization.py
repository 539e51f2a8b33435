"""Tensors as bytes and numbers as LEB128: against NumPy and plain Python; what is neither is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops, wire

NUMBERS = st.one_of(
    st.integers(0, 2**31 - 1),
    # Both sides of where a number needs a byte more.
    st.sampled_from([edge for bits in range(0, 31, 7) for edge in (2**bits - 1, 2**bits)]),
    st.just(2**31 - 1),
)


@pytest.mark.parametrize("name", sorted(wire.DTYPE_CODES))
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3)])
def test_bytes_are_those_of_numpy_and_come_back(name: str, shape: tuple[int, ...]) -> None:
    x = tf.cast(tf.reshape(tf.range(np.prod(shape, dtype=int)) % 2, shape), name)
    data = ops.to_bytes(x)
    assert data.numpy().tobytes() == x.numpy().tobytes()
    back = ops.from_bytes(data, x.dtype)
    assert back.dtype == x.dtype
    assert back.numpy().tobytes() == x.numpy().tobytes()


def test_half_a_number_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not whole float32 numbers"):
        ops.from_bytes(tf.zeros([7], tf.uint8), tf.float32)


def test_a_bool_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="neither 0 nor 1"):
        ops.from_bytes(tf.constant([0, 1, 2], tf.uint8), tf.bool)


def slow_varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first, the high bit set on all bytes but the last."""
    groups = [number % 128]
    while number := number // 128:
        groups.append(number % 128)
    return bytes([128 + group for group in groups[:-1]] + groups[-1:])


def slow_varints(data: bytes, count: int) -> tuple[list[int], bytes] | None:
    """The numbers and the bytes after them; None for what `slow_varint` does not write."""
    numbers = []
    for _ in range(count):
        length = next((place for place, byte in enumerate(data[:5], 1) if byte < 128), None)
        if length is None:
            return None
        number = sum(byte % 128 * 128**place for place, byte in enumerate(data[:length]))
        if number >= 2**31 or slow_varint(number) != data[:length]:
            return None
        numbers.append(number)
        data = data[length:]
    return numbers, data


def read_varints(data: bytes, count: int) -> tuple[list[int], bytes] | None:
    """The same of `ops.varints_from_bytes`."""
    try:
        numbers, rest = ops.varints_from_bytes(tf.constant(list(data), tf.uint8), count, "the numbers")
    except tf.errors.InvalidArgumentError:
        return None
    assert all(number.dtype == tf.int32 for number in numbers)
    return [int(number) for number in numbers], bytes(rest.numpy())


@settings(deadline=None, max_examples=80)
@given(numbers=st.lists(NUMBERS, max_size=4), after=st.binary(max_size=6))
def test_numbers_are_written_in_leb128_and_read_back(numbers: list[int], after: bytes) -> None:
    data = bytes(ops.varints_to_bytes(tf.constant(numbers, tf.int32)).numpy())
    assert data == b"".join(map(slow_varint, numbers))
    assert read_varints(data + after, len(numbers)) == (numbers, after)


@settings(deadline=None, max_examples=150)
@given(data=st.binary(max_size=12), count=st.integers(0, 3))
def test_any_bytes_are_refused_or_are_numbers_in_their_shortest_form(data: bytes, count: int) -> None:
    assert read_varints(data, count) == slow_varints(data, count)


@settings(deadline=None, max_examples=150)
@given(
    # Mostly high bits and zeros: numbers that are too long, too large, or longer than they need be.
    data=st.lists(st.sampled_from([0, 1, 7, 8, 127, 128, 129, 255]), max_size=11).map(bytes),
    count=st.integers(1, 2),
)
def test_hostile_bytes_are_refused_or_are_numbers_in_their_shortest_form(data: bytes, count: int) -> None:
    assert read_varints(data, count) == slow_varints(data, count)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("", "the numbers cannot be read", id="empty"),
        pytest.param("80", "the numbers cannot be read", id="cut off"),
        pytest.param("808080808001", "the numbers cannot be read", id="six bytes"),
        pytest.param("8000", "the numbers are not in their fewest bytes", id="zero in two bytes"),
        pytest.param("ff00", "the numbers are not in their fewest bytes", id="127 in two bytes"),
        pytest.param("8080808008", "or too large", id="two to the 31"),
        pytest.param("ffffffff7f", "or too large", id="two to the 35 minus one"),
    ],
)
def test_a_number_that_is_none_is_refused_in_an_optimized_graph_too(data: str, message: str) -> None:
    def read(data: tf.Tensor) -> tf.Tensor:
        (number,), rest = ops.varints_from_bytes(data, 1, "the numbers")
        return tf.concat([number[tf.newaxis], tf.cast(rest, tf.int32)], axis=0)

    in_graph = tf.function(read, input_signature=[tf.TensorSpec([None], tf.uint8)])
    assert in_graph(tf.constant([0x80, 1, 9], tf.uint8)).numpy().tolist() == [128, 9]
    for reader in (read, in_graph):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            reader(tf.constant(list(bytes.fromhex(data)), tf.uint8))
