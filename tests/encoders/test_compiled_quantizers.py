"""The compiled quantizers and their plain-TensorFlow twins: the same bytes, values and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import ops
from fedplug.encoders.quantizers.blockwise8 import Blockwise8
from fedplug.encoders.quantizers.cast import BFloat16, Float16
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.encoders.quantizers.sign import Sign
from fedplug.encoders.quantizers.terngrad import TernGrad

DTYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16)
ROUND = tf.constant(7)
QUANTIZERS = st.one_of(
    st.builds(
        QSGD, st.integers(2, 8), block_size=st.sampled_from([1, 4, 32]), seed=st.integers(0, 2**31 - 1)
    ),
    st.builds(Blockwise8, block_size=st.sampled_from([1, 4, 32])),
    st.builds(TernGrad, seed=st.integers(0, 2**31 - 1)),
    st.sampled_from([Sign(), Float16(), BFloat16()]),
)
# No denormals, also not as quotients: TensorFlow's arithmetic takes them for zero, the kernels' does not.
NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(2**-10, 2**15, width=16),
    st.floats(-(2**15), -(2**-10), width=16),
)
VECTORS = hnp.arrays(np.float32, st.integers(0, 90), elements=NUMBERS)


def as_tensor(data):
    return tf.constant(np.frombuffer(bytes(data), np.uint8))


def both(function, *arguments):
    """What each lowering gives, as bytes; None where it refuses."""
    outcomes = []
    for lowering in ("fused", "reference"):
        with ops.use_lowering(lowering):
            try:
                payload = function(*arguments)
                outcomes.append({key: part.numpy().tobytes() for key, part in payload.items()})
            except tf.errors.InvalidArgumentError:
                outcomes.append(None)
    return outcomes


@settings(max_examples=150, deadline=None)
@given(quantizer=QUANTIZERS, x=VECTORS, dtype=st.sampled_from(DTYPES))
def test_the_kernel_and_its_twin_write_the_same_bytes(quantizer, x, dtype):
    fused, twin = both(quantizer.quantize, tf.cast(x, dtype), ROUND)
    assert fused is not None
    assert fused == twin


@settings(max_examples=150, deadline=None)
@given(quantizer=QUANTIZERS, x=VECTORS, dtype=st.sampled_from(DTYPES), data=st.data())
def test_the_kernel_and_its_twin_refuse_the_same_bytes_and_agree_on_the_rest(quantizer, x, dtype, data):
    code = bytearray(quantizer.quantize(tf.cast(x, dtype), ROUND)["code"].numpy())
    for _ in range(data.draw(st.integers(0, 2)) if code else 0):
        # Bit 6 makes a denormal of the scale 3.
        code[data.draw(st.integers(0, len(code) - 1))] ^= data.draw(st.sampled_from([1, 2, 8, 32, 128]))
    code += data.draw(st.sampled_from([b"", b"", b"", b"\0"]))
    count = max(0, len(x) + data.draw(st.sampled_from([0, 0, 0, 1, -1])))
    fused, twin = both(quantizer.from_bytes, as_tensor(code), count, dtype)
    assert fused == twin


@pytest.mark.parametrize("lowering", ["fused", "reference"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("quantizer", [QSGD(), Blockwise8(), TernGrad(), Sign(), Float16()], ids=repr)
def test_a_value_that_is_not_finite_is_refused(quantizer, number, lowering):
    with ops.use_lowering(lowering), pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        quantizer.quantize(tf.constant([1, number, 2], tf.float32), ROUND)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("quantizer", [QSGD(), Blockwise8(), TernGrad(), Sign()], ids=repr)
def test_the_other_zero_is_refused_as_a_scale(quantizer, dtype):
    code = bytearray(quantizer.quantize(tf.zeros([5], dtype), ROUND)["code"].numpy())
    header_bytes = {"qsgd": 2, "blockwise8": 1}.get(quantizer.name, 0)
    code[header_bytes + dtype.size - 1] = 0x80
    assert both(quantizer.from_bytes, as_tensor(code), 5, dtype) == [None, None]


def test_a_claim_of_many_values_is_refused_before_memory_is_taken_for_them():
    with pytest.raises(tf.errors.InvalidArgumentError, match="2147483647 values take 268435460 bytes, not 3"):
        ops.decode_values(tf.zeros([3], tf.uint8), 2**31 - 1, "sign", dtype=tf.float32)


def test_a_constant_count_gives_a_static_shape():
    def decode(code):
        return ops.decode_values(code, 5, "float16", dtype=tf.float32)

    graph = tf.function(decode, input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
    assert graph.get_concrete_function().output_shapes == [5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "qsgd", "bits": 9}, r"bits = 9 is not in \[2, 8\]"),
        ({"form": "qsgd", "bits": 2**32 + 4}, r"bits = 4294967300 is not in"),
        ({"form": "blockwise8", "block_size": 3}, "block_size = 3 is not a power of two"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ops.encode_values(tf.ones([4]), **options)


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_bits_may_be_known_only_when_the_graph_runs(bits):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def there_and_back(bits):
        code = ops.encode_values(x, "qsgd", bits=bits)
        return code, ops.decode_values(code, 300, "qsgd", bits=bits, dtype=tf.float32)

    x = tf.linspace(-2.0, 3.0, 300)
    code, values = there_and_back(bits)
    assert code.numpy().tobytes() == ops.encode_values(x, "qsgd", bits=bits).numpy().tobytes()
    assert float(tf.reduce_max(tf.abs(values - x))) <= 3 / (2 ** (bits - 1) - 1)


def test_only_vectors_of_floats_are_encoded():
    with pytest.raises(TypeError, match="values must be one of float32"):
        ops.encode_values(tf.constant([1, 2]), "sign")
    with pytest.raises(ValueError, match="values must be a vector"):
        ops.encode_values(tf.ones([1, 1]), "sign")


@settings(max_examples=40, deadline=None)
@given(x=VECTORS, seed=st.integers(0, 99), dtype=st.sampled_from(DTYPES))
def test_signs_with_error_feedback_are_the_same_in_one_op_and_in_many(x, seed, dtype):
    residual = tf.cast(np.random.default_rng(seed).integers(-3, 4, x.shape), dtype)

    def encode(x):
        payload, state = Sign().encode(x, {"residual": residual}, ROUND)
        return {**payload, **state}

    fused, twin = both(encode, tf.cast(x, dtype))
    assert fused is not None
    assert fused == twin


def test_signs_of_a_sum_that_is_not_finite_are_refused_in_one_op_too():
    x = tf.constant([1.0, 3e38])
    assert both(lambda x: Sign().encode(x, {"residual": x}, ROUND)[0], x) == [None, None]
