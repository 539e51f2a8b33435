"""Values come back from their serialized form, and a part that differs by client is sent with the client."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from fedplug_ray.messages import columns_of, deserialize, serialize

from fedplug.tff.runtime.inprocess.values import Clients


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_a_tensor_comes_back_bit_for_bit(dtype, shape):
    tensor = tf.constant(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
    back = deserialize(serialize(tensor))
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.numpy().tobytes() == tensor.numpy().tobytes()


def test_strings_structs_and_data_sets_come_back():
    data = tf.data.Dataset.range(3, output_type=tf.int32)
    texts = tf.constant("é"), tf.constant(["a", ""]), tf.zeros([0], tf.string)
    variant, (text, *others) = deserialize(serialize((tf.data.experimental.to_variant(data), texts)))
    assert [*tf.data.experimental.from_variant(variant, data.element_spec).as_numpy_iterator()] == [0, 1, 2]
    assert text.numpy() == "é".encode()
    assert [other.numpy().tolist() for other in others] == [[b"a", b""], []]


def test_a_clients_part_of_a_value_fills_its_gap():
    value = tf.constant(1), (Clients([tf.constant(2), tf.constant(3)]), tf.constant(4))
    (column,) = columns_of(value)
    one, (two, four) = deserialize(serialize(value), iter([column[1]]))
    assert (one.numpy(), two.numpy(), four.numpy()) == (1, 3, 4)


def test_a_function_cannot_be_sent():
    with pytest.raises(TypeError, match="a function cannot be sent to a worker"):
        serialize((tf.constant(1), lambda: None))
