"""Tests dense pipelines, and entropy coders in any pipeline: the same values in fewer bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug import ops
from fedplug.encoders import Pipeline
from fedplug.encoders.quantizers.blockwise8 import Blockwise8
from fedplug.encoders.quantizers.cast import BFloat16
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.encoders.quantizers.raw import Raw
from fedplug.encoders.quantizers.sign import Sign
from fedplug.encoders.quantizers.terngrad import TernGrad
from fedplug.errors import CapabilityError
from fedplug.ops.lowering import use_lowering

ROUND = tf.constant(3)
QUANTIZERS = ["qsgd(8)", "qsgd(3, block_size=16)", "blockwise8", "terngrad", "sign"]
SPEC = tf.TensorSpec([1000], tf.float32)


def normal(spec=SPEC):
    return tf.cast(np.random.default_rng(0).standard_normal(spec.shape), spec.dtype)


def body(encoder, x, spec):
    return encoder.to_wire(encoder.encode(x, encoder.init_state(spec), ROUND)[0], spec)


ALONE = [QSGD(4), Blockwise8(), TernGrad(), Sign(error_feedback=False), BFloat16(), Raw()]


@pytest.mark.parametrize("quantizer", ALONE, ids=repr)
def test_a_quantizer_alone_writes_its_bytes_under_its_wire_id(quantizer):
    encoder, x = Pipeline([quantizer]), normal()
    payload, state = encoder.encode(x, encoder.init_state(SPEC), ROUND)
    code = quantizer.encode(x, ROUND)
    assert encoder.wire_id == quantizer.wire_id
    assert encoder.capabilities == quantizer.capabilities
    assert state == {}
    np.testing.assert_array_equal(encoder.to_wire(payload, SPEC), code)
    np.testing.assert_array_equal(encoder.decode(payload, SPEC), quantizer.decode(code, 1000, tf.float32))
    lossless = quantizer.capabilities.lossless
    assert set(payload) == ({"values"} if lossless else {"value_code"})


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("text", ["sign", "sign | rans"])
def test_what_a_quantizer_with_error_feedback_loses_waits_in_the_residual(text, dtype):
    encoder, spec = fedplug.encoder(text), tf.TensorSpec([10, 100], dtype)
    x = normal(spec)
    wide = ops.widened(x)
    state, bodies = {"residual": tf.reverse(wide, [0])}, []
    for lowering in ("fused", "reference"):
        with use_lowering(lowering):
            payload, next_state = encoder.encode(x, state, ROUND)
            bodies.append(bytes(encoder.to_wire(payload, spec).numpy()))
            sent = encoder.decode(encoder.from_wire(encoder.to_wire(payload, spec), spec), spec)
        np.testing.assert_array_equal(next_state["residual"], wide + state["residual"] - ops.widened(sent))
    assert bodies[0] == bodies[1]
    assert set(encoder.init_state(spec)) == {"residual"}


@pytest.mark.parametrize("lowering", ["fused", pytest.param("reference", marks=pytest.mark.slow)])
def test_a_sum_with_the_residual_that_is_not_finite_is_refused(lowering):
    x = tf.constant([1.0, 3e38])
    with use_lowering(lowering), pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        fedplug.encoder("sign").encode(x, {"residual": x}, ROUND)


@pytest.mark.parametrize("lowering", ["fused", pytest.param("reference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", QUANTIZERS)
def test_what_is_decoded_is_what_the_quantizer_alone_gives(text, lowering):
    with use_lowering(lowering):
        coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
        data = body(coded, normal(), SPEC)
        got = coded.decode(coded.from_wire(data, SPEC), SPEC)
        want = alone.decode(alone.from_wire(body(alone, normal(), SPEC), SPEC), SPEC)
    np.testing.assert_array_equal(got, want)
    assert len(data) <= len(body(alone, normal(), SPEC)) + 1


@pytest.mark.parametrize("text", QUANTIZERS)
def test_the_ops_and_their_references_write_the_same_bytes(text):
    bodies = []
    for lowering in ("fused", "reference"):
        with use_lowering(lowering):
            bodies.append(bytes(body(fedplug.encoder(f"{text} | rans"), normal(), SPEC).numpy()))
    assert bodies[0] == bodies[1]


def test_normal_values_of_four_bits_take_three_and_a_quarter():
    spec = tf.TensorSpec([100_000], tf.float32)
    levels = 8 * len(body(fedplug.encoder("qsgd(4) | rans"), normal(spec), spec)) / 100_000 - 32 / 512
    assert 3.1 < levels < 3.4


def test_a_sparse_update_of_few_levels_takes_less_than_a_bit_an_element():
    spec = tf.TensorSpec([100_000], tf.float32)
    x = tf.where(tf.range(100_000) % 50 == 0, normal(spec), 0.0)
    assert len(body(fedplug.encoder("terngrad | rans"), x, spec)) < 0.3 * 100_000 / 5


def test_in_a_pipeline_the_chosen_values_are_coded():
    spec = tf.TensorSpec([100_000], tf.float32)
    coded = fedplug.encoder("topk(0.1) | qsgd(4) | rans | rice")
    plain = fedplug.encoder("topk(0.1) | qsgd(4) | rice")
    shorter, longer = (body(encoder, normal(spec), spec) for encoder in (coded, plain))
    assert len(shorter) < len(longer)
    decoded = [
        encoder.decode(encoder.from_wire(b, spec), spec) for encoder, b in ((coded, shorter), (plain, longer))
    ]
    np.testing.assert_array_equal(*decoded)


def test_it_promises_what_its_quantizer_promises():
    for text in QUANTIZERS:
        coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
        assert coded.capabilities == alone.capabilities
        assert set(coded.init_state(SPEC)) == set(alone.init_state(SPEC))


def test_the_wire_id_names_quantizer_and_coder():
    assert fedplug.encoder("qsgd(4) | rans").wire_id == "qsgd/1+rans/1"
    longest = fedplug.encoder("topk(0.1) | blockwise8 | rans | shortest")
    assert longest.wire_id == "sparse/1+blockwise8/1+rans/1+shortest/1"


@pytest.mark.parametrize(
    "text", ["qsgd(4) | rans", "topk(0.1) | terngrad | rans | bitmap", "topk(0.1) | sign | rans"]
)
def test_it_goes_through_json_and_comes_back_equal(text):
    encoder = fedplug.encoder(text)
    assert fedplug.from_config(json.loads(json.dumps(fedplug.to_config(encoder)))) == encoder
    assert fedplug.encoder(repr(encoder)) == encoder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rans", r"rans is an entropy coder, which .* none before it; use 'qsgd\(8\) \| rans'"),
        (
            "rans | qsgd(4)",
            r"rans is an entropy coder and cannot be followed by qsgd.* use 'qsgd\(bits=4.* \| rans'",
        ),
        (
            "qsgd(4) | rans | rice",
            r"rice is an index coder, and .* no indices; use 'topk\(.* \| qsgd\(bits=4.* \| rans \| rice'",
        ),
        (
            "topk(0.1) | rans",
            r"rans is an entropy coder, which .* use 'topk\(fraction=0.1.* \| qsgd\(8\) \| rans'",
        ),
        (
            "topk(0.1) | rice | rans",
            r"rice is an index coder and cannot be followed by rans, an entropy coder",
        ),
        (
            "float16 | rans",
            r"rans shortens symbols of .* number of bits, and float16 has none; use 'qsgd\(8\) \| rans'",
        ),
        ("qsgd(step([8, 4], [9])) | rans", r"'rounds': \[9\].* has none; use 'qsgd\(8\) \| rans'"),
        ("topk(0.1) | bfloat16 | rans", r"bfloat16 has none; use 'qsgd\(8\) \| rans'"),
        ("raw | rans", r"raw has none; use 'qsgd\(8\) \| rans'"),
        (
            "qsgd(4) | rans | rans",
            r"rans is an entropy coder and cannot be followed by rans, an entropy coder",
        ),
        ("qsgd(4) | sign", r"qsgd.* is a quantizer and cannot be followed by sign.*, a quantizer"),
        ("identity | rans", r"identity is neither a sparsifier nor a quantizer nor an entropy coder"),
    ],
)
def test_where_it_cannot_stand_the_error_says_why_and_what_would_work(text, message):
    with pytest.raises(CapabilityError, match=message) as caught:
        fedplug.encoder(text)
    fedplug.encoder(str(caught.value).rpartition("'")[0].rpartition("'")[2])


def test_a_body_too_short_for_its_scales_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="too short"):
        fedplug.encoder("qsgd(4) | rans").from_wire(tf.zeros([5], tf.uint8), SPEC)
