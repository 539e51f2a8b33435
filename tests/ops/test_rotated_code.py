"""Quantization after a rotation, on tensors: op and reference agree, and refuse the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import kernels, ops
from fedplug.errors import ArgumentError

DTYPES = st.sampled_from([tf.float32, tf.float64, tf.float16, tf.bfloat16])
# No denormals, also not as quotients: TensorFlow's arithmetic takes them for zero, the kernels' does not.
NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(2**-10, 2**15, width=16),
    st.floats(-(2**15), -(2**-10), width=16),
)
VECTORS = hnp.arrays(np.float32, st.integers(0, 90), elements=NUMBERS)
LEVELS = st.sampled_from([[0.8], [0.45278, 1.51042], [i / 2 + 0.25 for i in range(8)]])
KEYS = st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2).map(list)
SIZES = st.sampled_from([8, 32, 64, 128])
OPTIONS = st.fixed_dictionaries({"key": KEYS, "levels": LEVELS, "block_size": SIZES})
KEY, FEW = [3, 4], [0.45278, 1.51042]


def as_tensor(data):
    return tf.constant(np.frombuffer(bytes(data), np.uint8))


@settings(deadline=None)
@given(x=VECTORS, dtype=DTYPES, options=OPTIONS)
def test_op_and_reference_write_the_same_bytes(agree, x, dtype, options):
    agree(ops.encode_rotated, tf.cast(x, dtype), **options)


@settings(deadline=None)
@given(x=VECTORS, dtype=DTYPES, options=OPTIONS, data=st.data())
def test_op_and_reference_refuse_the_same_bytes_and_agree_on_the_rest(
    agree_on_normals, x, dtype, options, data
):
    code = bytearray(ops.encode_rotated(tf.cast(x, dtype), **options).numpy())
    for _ in range(data.draw(st.integers(0, 2)) if code else 0):
        code[data.draw(st.integers(0, len(code) - 1))] ^= data.draw(st.sampled_from([1, 2, 8, 32, 128]))
    code += data.draw(st.sampled_from([b"", b"", b"", b"\0"]))
    count = len(x) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    read = {**options, **data.draw(st.sampled_from([{}, {}, {"levels": [0.8]}, {"block_size": 16}]))}
    agree_on_normals(ops.decode_rotated, as_tensor(code), count, **read, dtype=dtype)


@pytest.mark.parametrize("count", [1, 3, 5000, 70_000])
@pytest.mark.parametrize("log_size", [7, 13, 16])
def test_op_reference_and_kernel_give_the_same_bits_of_any_block(dtype, count, log_size):
    x = np.random.default_rng(0).standard_normal(count).astype(dtype.as_numpy_dtype)
    code = kernels.encode_rotated(x, tuple(KEY), np.array(FEW), 2**log_size)
    back = kernels.decode_rotated(code, count, tuple(KEY), np.array(FEW), 2**log_size, dtype=x.dtype)
    for lowering in ("fused", "reference"):
        given = {"key": KEY, "levels": FEW, "block_size": 2**log_size, "lowering": lowering}
        written = ops.encode_rotated(tf.constant(x), **given)
        np.testing.assert_array_equal(written, code)
        decoded = ops.decode_rotated(written, count, **given, dtype=dtype)
        assert decoded.numpy().tobytes() == back.tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_block_may_be_short_where_it_is_the_only_one(agree, count, size):
    agree(ops.encode_rotated, tf.range(1.0, count + 1.0), KEY, FEW, size)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_refused_when_decoded(agree, lowering, number):
    x = tf.constant([1.0] * 40 + [number] + [2.0] * 9)
    agree(ops.encode_rotated, x, KEY, FEW, 32)
    code = ops.encode_rotated(x, KEY, FEW, 32, lowering=lowering)
    with pytest.raises(tf.errors.InvalidArgumentError, match="scale"):
        ops.decode_rotated(code, 50, KEY, FEW, 32, dtype=tf.float32, lowering=lowering)


def test_everything_but_the_levels_may_be_known_only_when_the_graph_runs(lowering):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None]),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    def there_and_back(x, key, size):
        code = ops.encode_rotated(x, key, FEW, size, lowering=lowering)
        return ops.decode_rotated(code, tf.size(x), key, FEW, size, dtype=tf.float32, lowering=lowering)

    x = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    code = ops.encode_rotated(x, KEY, FEW, 64)
    np.testing.assert_array_equal(
        there_and_back(x, KEY, 64), ops.decode_rotated(code, 300, KEY, FEW, 64, dtype=np.float32)
    )


def test_a_claim_of_many_values_is_refused_before_memory_is_taken_for_them(lowering):
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.decode_rotated(
            tf.zeros([3], tf.uint8), 2**31 - 1, KEY, FEW, 2**20, dtype=tf.float32, lowering=lowering
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_size": 0},
        {"block_size": 12},
        {"block_size": 2**21},
        {"block_size": 4},
        {"levels": []},
        {"levels": [1.0, 2.0, 3.0]},
        {"levels": [2.0, 1.0]},
        {"levels": [0.0]},
        {"levels": [2e6]},
    ],
    ids=str,
)
def test_wrong_levels_and_sizes_are_refused(lowering, wrong):
    options = {"key": KEY, "levels": FEW, "block_size": 8, **wrong}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"level|block_size"):
        ops.encode_rotated(tf.ones([9]), **options, lowering=lowering)
    with pytest.raises(ArgumentError, match=r"level|block_size"):
        ops.encode_rotated(np.ones(9, np.float32), **options)
