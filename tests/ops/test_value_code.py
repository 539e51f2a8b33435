"""Quantized values on tensors: op and reference agree, and refuse the same bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import ops
from fedplug.errors import LoweringError

DTYPES = st.sampled_from([tf.float32, tf.float64, tf.float16, tf.bfloat16])
FORMS = ("float16", "bfloat16", "qsgd", "nearest", "sign", "bfp")
COMPILED = ("codebook", "bounded")  # there is no reference
SCALES_AT = {"qsgd": 2, "nearest": 2, "sign": 0}
# No denormals, also not as quotients: TensorFlow's arithmetic takes them for zero, the kernels' does not.
NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(2**-10, 2**15, width=16),
    st.floats(-(2**15), -(2**-10), width=16),
)
# Few sizes, as a reference is traced once for each.
VECTORS = hnp.arrays(np.float32, st.sampled_from([0, 1, 7, 33, 90]), elements=NUMBERS)
OPTIONS = st.fixed_dictionaries(
    {
        "bits": st.integers(2, 8),
        "block_size": st.sampled_from([1, 4, 32, 512]),
    }
)
SEEDS = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="session", params=FORMS)
def form(request):
    return request.param


def as_tensor(data):
    return tf.constant(np.frombuffer(bytes(data), np.uint8))


@settings(deadline=None)
@given(x=VECTORS, dtype=DTYPES, options=OPTIONS, seed=SEEDS)
def test_op_and_reference_write_the_same_bytes(agree, form, x, dtype, options, seed):
    agree(ops.encode_values, tf.cast(x, dtype), form, **options, seed=seed)


def test_op_and_reference_write_the_same_bytes_for_many_values_on_several_threads(agree, form, dtype):
    x = tf.cast(np.random.default_rng(3).integers(-99, 99, 98_307) / 8, dtype)
    agree(ops.encode_values, x, form, bits=5, block_size=512, seed=1)


@settings(deadline=None)
@given(x=VECTORS, dtype=DTYPES, options=OPTIONS, data=st.data())
def test_op_and_reference_refuse_the_same_bytes_and_agree_on_the_rest(
    agree_on_normals, form, x, dtype, options, data
):
    code = bytearray(ops.encode_values(tf.cast(x, dtype), form, **options).numpy())
    for _ in range(data.draw(st.integers(0, 2)) if code else 0):
        # Flipping bit 6 would turn the scale 3 into a denormal number.
        code[data.draw(st.integers(0, len(code) - 1))] ^= data.draw(st.sampled_from([1, 2, 8, 32, 128]))
    code += data.draw(st.sampled_from([b"", b"", b"", b"\0"]))
    count = len(x) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    read = {**options, **data.draw(st.sampled_from([{}, {}, {"bits": 3}, {"block_size": 4}]))}
    agree_on_normals(ops.decode_values, as_tensor(code), count, form, **read, dtype=dtype)


@pytest.mark.parametrize("form", COMPILED)
@settings(deadline=None)
@given(x=VECTORS, dtype=DTYPES)
def test_compiled_forms_write_the_bytes_of_kernels_and_have_no_reference(form, x, dtype):
    x = tf.cast(x, dtype)
    code = ops.encode_values(x, form)
    assert code.numpy().tobytes() == ops.encode_values(x.numpy(), form).tobytes()
    got = ops.decode_values(code, len(x), form, dtype=dtype).numpy()
    assert got.tobytes() == ops.decode_values(code.numpy(), len(x), form, dtype=got.dtype).tobytes()
    with pytest.raises(LoweringError, match=f"quantizer '{form}' .* compiled op.* or use 'bfp'"):
        ops.encode_values(x, form, lowering="reference")
    with pytest.raises(LoweringError, match=f"quantizer '{form}'"):
        ops.decode_values(code, len(x), form, dtype=dtype, lowering="reference")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused(form, lowering, number):
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        ops.encode_values(tf.constant([1, number, 2], tf.float32), form, lowering=lowering)


@pytest.mark.parametrize("form", SCALES_AT)
def test_the_other_zero_is_refused_as_a_scale(form, lowering, dtype):
    code = bytearray(ops.encode_values(tf.zeros([5], dtype), form).numpy())
    code[SCALES_AT[form] + dtype.size - 1] = 0x80
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.decode_values(as_tensor(code), 5, form, dtype=dtype, lowering=lowering)


def test_a_denormal_scale_of_no_values_is_refused(lowering, dtype):
    code = bytearray(ops.encode_values(tf.zeros([0], dtype), "sign").numpy())
    code[0] = 1
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.decode_values(as_tensor(code), 0, "sign", dtype=dtype, lowering=lowering)


@pytest.mark.parametrize(
    ("lowest", "highest", "accepted"), [(1, 0, False), (0, 1, True), (-1, 0, True), (0, -1, False)]
)
def test_denormal_extremes_are_in_order(dtype, lowest, highest, accepted):
    code = bytearray(ops.encode_values(tf.zeros([0], dtype), "bounded").numpy())
    for place, units in enumerate((lowest, highest)):
        code[4 + place * dtype.size] = abs(units)
        code[3 + (place + 1) * dtype.size] = 0x80 * (units < 0)
    refused = contextlib.nullcontext() if accepted else pytest.raises(tf.errors.InvalidArgumentError)
    with refused:
        ops.decode_values(as_tensor(code), 0, "bounded", dtype=dtype)


def test_a_claim_of_many_values_is_refused_before_memory_is_taken_for_them(form, lowering):
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.decode_values(tf.zeros([3], tf.uint8), 2**31 - 1, form, dtype=tf.float32, lowering=lowering)


@pytest.mark.parametrize("bits", [-1, 1, 9, 2**32 + 4])
def test_bits_out_of_range_are_refused(lowering, bits):
    with pytest.raises(tf.errors.InvalidArgumentError, match="bits"):
        ops.encode_values(tf.ones([4]), "qsgd", bits=bits, lowering=lowering)
    code = ops.encode_values(tf.ones([4]), "qsgd", bits=4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bits"):
        ops.decode_values(code, 4, "qsgd", bits=bits, dtype=tf.float32, lowering=lowering)


@pytest.mark.parametrize("bits", [2, 5, 8])
def test_the_bits_may_be_known_only_when_the_graph_runs(lowering, bits):
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
    def there_and_back(bits):
        code = ops.encode_values(x, "qsgd", bits=bits, lowering=lowering)
        return code, ops.decode_values(code, 300, "qsgd", bits=bits, dtype=tf.float32, lowering=lowering)

    x = tf.linspace(-2.0, 3.0, 300)
    code, values = there_and_back(bits)
    assert code.numpy().tobytes() == ops.encode_values(x, "qsgd", bits=bits).numpy().tobytes()
    assert float(tf.reduce_max(tf.abs(values - x))) <= 3 / (2 ** (bits - 1) - 1)


def test_it_works_in_an_optimized_graph_with_shapes_known_only_when_run(form, lowering):
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.uint8), tf.TensorSpec([], tf.int32)], autograph=False
    )
    def decode(code, count):
        return ops.decode_values(code, count, form, dtype=tf.float32, lowering=lowering)

    for count in (0, 1, 700):
        x = tf.linspace(-2.0, 3.0, count) if count else tf.zeros([0])
        code = ops.encode_values(x, form)
        want = ops.decode_values(code, count, form, dtype=tf.float32, lowering="fused")
        assert decode(code, count).numpy().tobytes() == want.numpy().tobytes()
        with pytest.raises(tf.errors.InvalidArgumentError):
            decode(tf.concat([code, [0]], axis=0), count)


def test_only_floats_are_encoded(lowering):
    with pytest.raises(TypeError, match="values must be one of float32"):
        ops.encode_values(tf.constant([1, 2]), "sign", lowering=lowering)
