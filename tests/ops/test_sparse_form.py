"""The body of a sparse payload: op, reference and NumPy against plain Python, and refused bytes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops
from fedplug.errors import ArgumentError, PayloadError

COUNTS = st.one_of(
    st.integers(0, 2**31 - 1),
    # Both sides of the numbers from which one more byte is needed.
    st.sampled_from([edge for bits in range(0, 31, 7) for edge in (2**bits - 1, 2**bits)]),
    st.just(2**31 - 1),
)
# Mostly high bits and zeros: numbers that are too long, too large, or longer than they need be.
HOSTILE = st.lists(st.sampled_from([0, 1, 7, 8, 127, 128, 129, 255]), max_size=14).map(bytes)
REFUSALS = (PayloadError, tf.errors.InvalidArgumentError)


def slow_leb128(number: int) -> bytes:
    """Seven bits per byte, the lowest first; the high bit is set on all bytes but the last."""
    groups = [number % 128]
    while number := number // 128:
        groups.append(number % 128)
    return bytes([128 + group for group in groups[:-1]] + groups[-1:])


def slow_split(body: bytes, size: int) -> tuple[int, bytes, bytes] | None:
    """The parts of a body; None if it is not a body of a tensor of this size."""
    numbers, rest = [], body
    for _ in range(2):
        length = next((place for place, byte in enumerate(rest[:5], 1) if byte < 128), None)
        if length is None:
            return None
        number = sum(byte % 128 * 128**place for place, byte in enumerate(rest[:length]))
        if number >= 2**31 or slow_leb128(number) != rest[:length]:
            return None
        numbers.append(number)
        rest = rest[length:]
    count, code_bytes = numbers
    return (
        (count, rest[:code_bytes], rest[code_bytes:]) if count <= size and code_bytes <= len(rest) else None
    )


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.fixture(scope="module", params=["numpy", "fused", "reference"])
def execution(request) -> dict[str, str]:
    """The keyword arguments of an execution: a ``lowering``, or none for NumPy arrays."""
    return {} if request.param == "numpy" else {"lowering": request.param}


def split(body: bytes, size: int, execution: dict[str, str]) -> tuple[int, bytes, bytes] | None:
    try:
        count, index_code, values = ops.split_sparse_body(array(body), size, **execution)
    except REFUSALS:
        return None
    return int(count), bytes(np.asarray(index_code)), bytes(np.asarray(values))


@settings(deadline=None)
@given(count=COUNTS, code=st.binary(max_size=200), values=st.binary(max_size=6))
def test_a_body_has_the_bytes_of_its_layout_and_is_read_back(execution, count, code, values):
    body = bytes(np.asarray(ops.sparse_body(count, array(code), array(values), **execution)))
    assert body == slow_leb128(count) + slow_leb128(len(code)) + code + values
    assert split(body, 2**31 - 1, execution) == (count, code, values)


@settings(deadline=None)
@given(body=st.one_of(st.binary(max_size=12), HOSTILE), size=st.sampled_from([0, 1, 200, 2**31 - 1]))
def test_any_bytes_are_refused_or_have_one_form(execution, body, size):
    assert split(body, size, execution) == slow_split(body, size)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("80808080800100", "cannot be read", id="six bytes"),
        pytest.param("00ff00", "not in their fewest bytes, or too large", id="127 in two bytes"),
        pytest.param("09ffffffff07", "do not fit", id="an index code of 2 GiB"),
    ],
)
def test_a_body_that_is_none_is_refused_in_an_optimized_graph_too(execution, body, message):
    def read(body):
        count, index_code, values = ops.split_sparse_body(body, 9, **execution)
        return tf.concat([count[tf.newaxis], tf.cast(index_code, tf.int32), tf.cast(values, tf.int32)], 0)

    if not execution:
        with pytest.raises(PayloadError, match=message):
            ops.split_sparse_body(array(bytes.fromhex(body)), 9)
        return
    in_graph = tf.function(read, input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
    assert in_graph(tf.constant([9, 1, 255, 7], tf.uint8)).numpy().tolist() == [9, 255, 7]
    for reader in (read, in_graph):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            reader(tf.constant(list(bytes.fromhex(body)), tf.uint8))


def test_arrays_give_views():
    body = ops.sparse_body(5, array(b"code"), array(b"values"))
    count, *parts = ops.split_sparse_body(body, 9)
    assert type(count) is int
    assert all(np.shares_memory(part, body) for part in parts)


@pytest.mark.parametrize("count", [-1, 2**31])
def test_a_number_of_entries_that_no_payload_can_have_is_refused(execution, count):
    with pytest.raises((ArgumentError, tf.errors.InvalidArgumentError), match="less than 2\\^31 entries"):
        ops.sparse_body(count, array(b""), array(b""), **execution)
