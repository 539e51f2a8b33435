"""A quantizer followed by an entropy coder: the same values in fewer bytes, alone and in a pipeline."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug import ops
from fedplug.encoders.coders.rans import Rans
from fedplug.encoders.entropy_coded import EntropyCoded
from fedplug.encoders.identity import Identity
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.errors import CapabilityError, ConfigError

ROUND = tf.constant(3)
QUANTIZERS = ["qsgd(8)", "qsgd(3, block_size=16)", "blockwise8", "terngrad", "sign"]
SPEC = tf.TensorSpec([3000], tf.float32)


def normal(spec=SPEC):
    return tf.constant(np.random.default_rng(0).standard_normal(spec.shape), spec.dtype)


def body(encoder, x, spec):
    return encoder.to_wire(encoder.encode(x, encoder.init_state(spec), ROUND)[0], spec)


@pytest.mark.parametrize("lowering", ["fused", "reference"])
@pytest.mark.parametrize("text", QUANTIZERS)
def test_what_is_decoded_is_what_the_quantizer_alone_gives(text, lowering):
    with ops.use_lowering(lowering):
        coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
        data = body(coded, normal(), SPEC)
        got = coded.decode(coded.from_wire(data, SPEC), SPEC)
        want = alone.decode(alone.from_wire(body(alone, normal(), SPEC), SPEC), SPEC)
    np.testing.assert_array_equal(got, want)
    assert len(data) <= len(body(alone, normal(), SPEC)) + 1


@pytest.mark.parametrize("text", QUANTIZERS)
def test_the_kernels_and_their_twins_write_the_same_bytes(text):
    bodies = []
    for lowering in ("fused", "reference"):
        with ops.use_lowering(lowering):
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
        assert coded.error_feedback == alone.error_feedback


def test_the_wire_id_names_quantizer_and_coder():
    assert fedplug.encoder("qsgd(4) | rans").wire_id == "qsgd/1+rans/1"
    longest = fedplug.encoder("topk(0.1) | blockwise8 | rans | shortest")
    assert longest.wire_id == "sparse+blockwise8/1+rans/1+shortest/1"


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
        ("rans", r"begins with a sparsifier.*rans is an entropy coder; use 'topk\(.*qsgd.* \| rans \| rice'"),
        ("rans | qsgd(4)", r"begins with a sparsifier.*use 'topk\(.*qsgd\(bits=4.* \| rans"),
        ("qsgd(4) | rans | rice", r"begins with a sparsifier.*use 'topk\(.*qsgd\(bits=4.* \| rans \| rice"),
        (
            "topk(0.1) | rans",
            r"rans is an entropy coder, which .* none before it; use 'topk\(.*qsgd.* \| rans",
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
        ("qsgd(4) | rans | rans", r"begins with a sparsifier"),
    ],
)
def test_where_it_cannot_stand_the_error_says_why_and_what_would_work(text, message):
    with pytest.raises(CapabilityError, match=message) as caught:
        fedplug.encoder(text)
    fedplug.encoder(str(caught.value).partition("use '")[2].partition("'")[0])


def test_it_can_be_made_of_expressions():
    assert fedplug.encoder("entropy_coded('qsgd(4)', 'rans')") == fedplug.encoder("qsgd(4) | rans")


def test_only_a_quantizer_and_an_entropy_coder_go_together():
    with pytest.raises(ConfigError, match="takes a quantizer and an entropy coder, not"):
        EntropyCoded(Identity(), Rans())
    with pytest.raises(ConfigError, match="takes a quantizer and an entropy coder, not"):
        EntropyCoded(QSGD(), QSGD())


def test_a_body_too_short_for_its_scales_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="too short"):
        fedplug.encoder("qsgd(4) | rans").from_wire(tf.zeros([5], tf.uint8), SPEC)
