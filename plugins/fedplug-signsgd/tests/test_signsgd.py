"""What the sign-SGD encoder promises, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from fedplug_signsgd.bits import pack, packed_size, unpack
from fedplug_signsgd.encoder import SignSGD
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedplug

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
ROUND = tf.constant(0)

# No denormals: TensorFlow's arithmetic takes them for zero, NumPy's does not.
numbers = st.floats(-1e3, 1e3, width=32, allow_subnormal=False)
vectors = hnp.arrays(np.float32, st.integers(0, 70), elements=numbers)
TINY = np.finfo(np.float32).tiny


def encode(x, residual=None):
    """Payload and next residual of one tensor."""
    x = tf.convert_to_tensor(x)
    residual = tf.zeros_like(x) if residual is None else residual
    payload, state = SignSGD().encode(x, {"residual": residual}, ROUND)
    return payload, state["residual"]


def spec_of(x):
    return tf.TensorSpec(x.shape, x.dtype)


def test_installing_the_distribution_is_enough_to_use_it():
    assert fedplug.encoder("signsgd") == SignSGD()


def test_it_can_be_written_to_json_and_read_back():
    assert fedplug.from_config(fedplug.to_config(SignSGD())) == SignSGD()


@settings(max_examples=50, deadline=None)
@given(vectors, st.integers(0, 2**32 - 1))
def test_the_payload_is_the_signs_and_the_mean_magnitude_of_update_plus_residual(x, seed):
    residual = np.random.default_rng(seed).uniform(-1, 1, x.shape).astype(np.float32)
    payload, next_residual = encode(x, residual)
    a = x + residual
    scale = np.float32(np.abs(a.astype(np.float64)).sum() / max(a.size, 1))
    np.testing.assert_array_equal(payload["signs"], a >= 0)
    np.testing.assert_allclose(payload["scale"], scale, rtol=1e-6, atol=TINY)
    decoded = np.where(a >= 0, payload["scale"], -payload["scale"])
    np.testing.assert_allclose(next_residual, a - decoded, rtol=0, atol=TINY)


def test_zero_counts_as_plus_whatever_its_sign():
    payload, _ = encode(np.array([0.0, -0.0, -1.0], np.float32))
    assert payload["signs"].numpy().tolist() == [True, True, False]


@settings(max_examples=50, deadline=None)
@given(vectors)
def test_what_is_decoded_and_what_is_left_behind_add_up_to_the_update(x):
    payload, residual = encode(x)
    decoded = SignSGD().decode(payload, spec_of(x))
    np.testing.assert_allclose(decoded + residual, x, rtol=1e-6, atol=TINY + 1e-6 * np.abs(x).max(initial=0))


def test_over_many_rounds_nothing_is_lost():
    updates = np.random.default_rng(0).standard_normal((50, 100))
    residual, received = tf.zeros([100], tf.float64), np.zeros(100)
    for update in updates:
        payload, residual = encode(update, residual)
        received += SignSGD().decode(payload, spec_of(residual)).numpy()
    np.testing.assert_allclose(received + residual, updates.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_the_largest_finite_numbers_do_not_overflow_the_scale():
    for dtype in DTYPES:
        largest = tf.constant(dtype.max, dtype)
        payload, residual = encode(tf.fill([3], largest))
        assert bool(payload["scale"] == largest)
        assert bool(tf.reduce_all(residual == 0))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [[], [0], [1], [7], [8], [3, 5], [1024], [1025]], ids=str)
def test_the_wire_form_is_a_scale_and_a_bit_per_element_and_is_read_back_exactly(shape, dtype):
    x = tf.cast(tf.random.stateless_normal(shape, [1, 2]), dtype)
    spec = spec_of(x)
    payload, _ = encode(x)
    body = SignSGD().to_wire(payload, spec)
    read = SignSGD().from_wire(body, spec)
    assert body.shape == [dtype.size + (spec.shape.num_elements() + 7) // 8]
    np.testing.assert_array_equal(read["signs"], payload["signs"])
    assert bool(read["scale"] == payload["scale"])


def test_the_wire_form_is_frozen():
    x = np.array([1, -1, 1, 1, -1, -1, -1, 1, 1, -3], np.float32)  # scale 1.2
    payload, _ = encode(x)
    assert bytes(SignSGD().to_wire(payload, spec_of(x)).numpy()).hex() == "9a99993f" + "8d" + "01"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="empty"),
        pytest.param("0000803f", id="truncated"),
        pytest.param("0000803f8d0100", id="too long"),
        pytest.param("0000c07f8d01", id="scale is NaN"),
        pytest.param("0000807f8d01", id="scale is infinite"),
        pytest.param("000080bf8d01", id="scale is negative"),
        pytest.param("000000808d01", id="scale is -0"),
        pytest.param("0000803f8d05", id="unused bit is set"),
    ],
)
def test_bytes_that_no_encoder_wrote_are_refused(body):
    data = tf.constant(list(bytes.fromhex(body)), tf.uint8)
    with pytest.raises(tf.errors.InvalidArgumentError):
        SignSGD().from_wire(data, tf.TensorSpec([10], tf.float32))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=8))
def test_any_bytes_at_all_are_refused_or_stand_for_exactly_one_payload(data):
    spec = tf.TensorSpec([10], tf.float32)
    try:
        payload = SignSGD().from_wire(tf.constant(list(data), tf.uint8), spec)
    except tf.errors.InvalidArgumentError:
        return
    assert bytes(SignSGD().to_wire(payload, spec).numpy()) == data


def test_in_an_optimized_graph_it_reads_and_refuses_as_eagerly():
    spec = tf.TensorSpec([10], tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.uint8)])
    def decode(body):
        return SignSGD().decode(SignSGD().from_wire(body, spec), spec)

    payload, _ = encode(np.linspace(-1, 1, 10, dtype=np.float32))
    body = SignSGD().to_wire(payload, spec)
    np.testing.assert_array_equal(decode(body), SignSGD().decode(payload, spec))
    for wrong in (body[:5], tf.concat([body, body], axis=0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have 6 bytes"):
            decode(wrong)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), max_size=40))
def test_packing_gives_the_bytes_numpy_gives(flags):
    packed = pack(tf.constant(flags, tf.bool))
    np.testing.assert_array_equal(packed, np.packbits(np.array(flags, bool), bitorder="little"))
    assert packed.shape == [packed_size(len(flags))]
    assert unpack(packed).numpy().tolist()[: len(flags)] == flags


def test_the_scale_has_the_same_bits_on_any_number_of_threads():
    program = (
        "import sys, numpy as np, tensorflow as tf\n"
        "tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))\n"
        "from fedplug_signsgd.encoder import SignSGD\n"
        "x = tf.constant(np.random.default_rng(0).standard_normal(1_000_003))\n"
        "payload, _ = SignSGD().encode(x, {'residual': tf.zeros_like(x)}, 0)\n"
        "print(payload['scale'].numpy().hex())\n"
    )
    one, many = (
        subprocess.run(
            [sys.executable, "-c", program, threads],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        ).stdout
        for threads in ("1", "7")
    )
    assert one == many
