"""Values come back from their serialized form bit for bit, and sparse ones are small on the way."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from fedplug_ray.runtime import serialization
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

KINDS = [np.float32, np.float64, np.int8, np.int64, ml_dtypes.bfloat16, np.bool_]


def mostly_zeros(dtype):
    """Arrays of 6,000 elements of `dtype`, a few of whose bytes are ones."""
    size = (2, 3000 * np.dtype(dtype).itemsize)
    raw = hnp.arrays(np.uint8, size, elements=st.integers(0, 1), fill=st.just(0))
    return raw.map(lambda array: array.view(dtype))


@settings(max_examples=100)
@given(st.sampled_from(KINDS).flatmap(mostly_zeros))
def test_an_array_comes_back_bit_for_bit_and_never_larger(array):
    sent = serialization.shrink((array, (b"text", 3)))
    back, rest = serialization.expand(sent)
    assert (back.dtype, back.shape, rest) == (array.dtype, array.shape, (b"text", 3))
    assert back.tobytes() == array.tobytes()


def test_a_negative_zero_is_not_lost():
    array = np.zeros(5000, np.float32)
    array[[7, 4000]] = -0.0
    back = serialization.expand(serialization.shrink(array))
    assert np.signbit(back[[7, 4000]]).all()
    assert np.signbit(back).sum() == 2


def test_a_sparse_accumulator_is_sent_without_its_zeros():
    array = np.zeros(100_000, np.float32)
    array[::100] = 1.5
    sent = serialization.shrink(array)
    assert sum(part.nbytes for part in (sent.indices, sent.values)) == 8 * 1000


def test_a_dense_array_is_sent_uncompressed():
    array = np.ones(5000, np.float32)
    assert serialization.shrink(array) is array


def test_values_of_every_kind_come_back():
    kind = tff.types.to_type(
        [np.float32, tff.SequenceType(np.int32), (np.str_, tff.TensorType(np.int64, [2]))]
    )
    data = tf.data.Dataset.range(3, output_type=tf.int32)
    value = (
        tf.constant(1.5),
        tf.data.experimental.to_variant(data),
        (tf.constant("é"), tf.constant([1, 2], tf.int64)),
    )
    number, variant, (text, pair) = serialization.deserialize(serialization.serialize(value, kind), kind)
    assert number == 1.5
    assert [*tf.data.experimental.from_variant(variant, data.element_spec).as_numpy_iterator()] == [0, 1, 2]
    assert text.numpy() == "é".encode()
    np.testing.assert_array_equal(pair, [1, 2])
