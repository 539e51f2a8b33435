"""Tests pipelines, sparse and dense: the combined stages, the legal orders, and the bytes sent."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import fedplug
from fedplug.encoders.coders import Rice
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.quantizers import QSGD, BFloat16, Sign
from fedplug.encoders.sparsifiers import RandomK, TopK
from fedplug.errors import CapabilityError, ConfigError, PayloadError, UnknownNameError
from fedplug.ops.types import ArraySpec

PIPELINES = [
    "topk(0.2) | qsgd(8) | rice",
    "topk(0.2) | sign",
    "topk(0.2) | gaps",
    "randomk(0.2, error_feedback=True) | qsgd(rounding='nearest')",
    "randomk(0.2, error_feedback=True) | qsgd(2) | rice",
    "bounded(0.1, error_feedback=True) | rans",
    "sign",
]


def spec_of(x):
    return ArraySpec(x.shape, x.dtype)


def encode(encoder, x, state=None):
    return encoder.encode(x, encoder.init_state(spec_of(x)) if state is None else state, 3)


def test_the_values_chosen_are_quantized_as_a_tensor_of_their_own():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    pipeline, topk, qsgd = fedplug.encoder("topk(0.1) | qsgd(8)"), fedplug.encoder("topk(0.1)"), QSGD(8)
    payload, _ = encode(pipeline, x)
    kept, _ = encode(topk, x)
    values = qsgd.decode(qsgd.encode(kept["values"], 3), 100, x.dtype)
    np.testing.assert_array_equal(payload["indices"], kept["indices"])
    np.testing.assert_array_equal(pipeline.decode(payload, spec_of(x))[kept["indices"]], values)


@pytest.mark.parametrize("text", ["topk(0.2)", "topk(0.2) | sign", "randomk(0.2) | bfp(8) | rice"])
def test_a_payload_reports_its_bytes_and_known_values(text):
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    encoder = fedplug.encoder(text)
    payload, _ = encode(encoder, x)
    quantized = {"value_code"} if "|" in text else set()
    keeps_what_is_lost = bool(encoder.init_state(spec_of(x)))
    known = {"values"} if not quantized or keeps_what_is_lost else set()
    assert set(payload) == {"indices", "index_code"} | quantized | known
    received = encoder.from_wire(encoder.to_wire(payload, spec_of(x)), spec_of(x))
    assert set(received) == {"values", "indices", "index_code"} | quantized
    for key, part in payload.items():
        np.testing.assert_array_equal(received[key], part)


def test_a_pipeline_is_unbiased_only_if_every_stage_is():
    def unbiased(text):
        return fedplug.encoder(text).capabilities.unbiased

    assert unbiased("randomk(0.1) | qsgd(8)")
    assert not unbiased("randomk(0.1) | sign")
    assert not unbiased("topk(0.1) | qsgd(8)")
    assert not unbiased("randomk(0.1, error_feedback=True)")


@pytest.mark.parametrize("sparsifier", [TopK(0.1), TopK(0.1, error_feedback=False), RandomK(0.1)], ids=repr)
def test_with_uncompressed_values_it_has_the_promises_of_its_sparsifier(sparsifier):
    promised = dataclasses.replace(sparsifier.capabilities, fixed_size=False)
    assert Pipeline([sparsifier, Rice()]).capabilities == promised


def test_the_wire_id_names_how_values_and_indices_are_written():
    def wire_id(text):
        return fedplug.encoder(text).wire_id

    assert wire_id("topk(0.01)") == wire_id("topk(0.01) | identity | rice") == "sparse/1"
    assert wire_id("topk(0.01) | qsgd(8) | rice") == "sparse/1+qsgd/1"
    assert wire_id("topk(0.01) | qsgd(8)") == wire_id("topk(0.1) | qsgd(4) | rice")
    assert wire_id("topk(0.01) | gaps") == "sparse/1+gaps/1"
    assert wire_id("topk(0.01) | sign | gaps") == "sparse/1+sign/1+gaps/1"
    assert wire_id("randomk(0.01)") == "sparse/1+seeded/1"
    assert wire_id("randomk(0.01) | rice") == "sparse/1"
    assert wire_id("qsgd(4) | rans") == "qsgd/1+rans/1"
    assert wire_id("topk(0.1) | bfp(8) | rans | gaps") == "sparse/1+bfp/1+rans/1+gaps/1"


@pytest.mark.parametrize(
    "text",
    [
        *PIPELINES,
        "topk(0.1) | qsgd(step([8, 4], [5]))",
        "topk(cosine(0.1, 0.01, 20))",
        "ef21(\"topk(0.1, scope='model') | qsgd(8)\")",
        "rules({'*/bias': 'identity', 'embedding*': 'topk(0.001)', '*': 'topk(0.1)'})",
        "rules([{'min_elements': 9, 'max_elements': 99, 'dtype': 'float32', 'encoder': 'topk(0.1) | sign'}])",
        "budget('topk(0.01)', 1000)",
        "budget(\"rules({'*': 'stc(0.1)'})\", nmse=0.5)",
    ],
)
def test_a_configuration_and_a_repr_make_an_equal_encoder(text):
    encoder = fedplug.encoder(text)
    assert fedplug.from_config(json.loads(json.dumps(fedplug.to_config(encoder)))) == encoder
    assert fedplug.encoder(repr(encoder)) == encoder
    assert encoder != fedplug.encoder("identity")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "qsgd(8) | topk(0.1)",
            r"qsgd.* is a quantizer and cannot be followed by topk.*, a sparsifier; use 'topk\(fraction=0.1",
        ),
        (
            "topk(0.1) | randomk(0.1)",
            r"topk.* is a sparsifier and cannot be followed by randomk.*, a sparsifier",
        ),
        (
            "topk(0.1) | sign | qsgd(8)",
            r"sign.* is a quantizer and cannot be followed by qsgd.*, a quantizer",
        ),
        (
            "topk(0.1) | rice | qsgd(8)",
            r"rice is an index coder and cannot be followed by qsgd.*, a quantizer",
        ),
        ("topk(0.1) | rice | gaps", "rice is an index coder and cannot be followed by gaps"),
        (
            "topk(0.1) | rice | rans",
            "rice is an index coder and cannot be followed by rans, an entropy coder",
        ),
        (
            "rans | qsgd(4)",
            r"rans is an entropy coder and cannot be followed by qsgd.* use 'qsgd\(bits=4.* \| rans'",
        ),
        (
            "qsgd(4) | rans | rans",
            "rans is an entropy coder and cannot be followed by rans, an entropy coder",
        ),
        ("topk(0.1) | planes", r"planes.* is neither a sparsifier nor a quantizer nor an entropy coder"),
        ("topk(0.1) | stc(0.1)", r"stc.* is neither a sparsifier nor a quantizer nor an entropy coder"),
        ("rice", r"rice is an index coder, and without .* use 'topk\(0.01\) \| rice'"),
        (
            "qsgd(4) | rans | rice",
            r"rice is an index coder, and .* no indices; use 'topk\(.* \| qsgd\(bits=4.* \| rans \| rice'",
        ),
        ("rans", r"rans is an entropy coder, which .* none before it; use 'qsgd\(8\) \| rans'"),
        (
            "topk(0.1) | rans",
            r"rans is an entropy coder, which .* use 'topk\(fraction=0.1.* \| qsgd\(8\) \| rans'",
        ),
        (
            "float16 | rans",
            r"rans shortens symbols of .* number of bits, and float16 has none; use 'qsgd\(8\) \| rans'",
        ),
        ("qsgd(step([8, 4], [9])) | rans", r"rounds=\[9\].* has none; use 'qsgd\(8\) \| rans'"),
        ("topk(0.1) | identity | rans", r"identity has none; use 'qsgd\(8\) \| rans'"),
    ],
)
def test_an_illegal_order_names_the_rule_the_parts_and_a_stack_that_works(text, message):
    with pytest.raises(CapabilityError, match=message) as caught:
        fedplug.encoder(text)
    remedy = str(caught.value).rpartition("'")[0].rpartition("'")[2]
    assert isinstance(fedplug.encoder(remedy), Pipeline)


def test_its_stages_may_be_expressions():
    assert Pipeline(["topk(0.1)", "qsgd(4)", "rice"]) == fedplug.encoder("topk(0.1) | qsgd(4) | rice")
    assert Pipeline(["qsgd(4)", {"name": "rans"}]) == fedplug.encoder("qsgd(4) | rans")


def test_stages_that_cannot_be_read_are_refused():
    with pytest.raises(ConfigError, match="a pipeline has no stages"):
        Pipeline([])
    with pytest.raises(ConfigError, match=r"the stages of a pipeline are 'topk\(0.1\)'; give a list of them"):
        Pipeline("topk(0.1)")
    with pytest.raises(ConfigError, match="must have a name and a config"):
        Pipeline([{"config": {}}])
    with pytest.raises(UnknownNameError, match="unknown encoder 'tpok'; did you mean 'topk'"):
        Pipeline([{"name": "tpok"}])


def test_a_quantizer_uses_the_bound_of_the_sparsifier_and_its_own_seed():
    sparsifier, pipeline = (
        fedplug.encoder(f"topk(0.1, error_feedback=False){quantizer}").capabilities
        for quantizer in ("", " | qsgd(8)")
    )
    assert (sparsifier.bounded_sensitivity, pipeline.bounded_sensitivity) == (True, False)
    assert (sparsifier.needs_seed, pipeline.needs_seed) == (False, True)


def test_a_stage_whose_wire_id_is_too_long_for_a_pipeline_is_refused():
    class Verbose(Sign):
        wire_id = "sign-with-a-wire-id-that-does-not-leave-room-for-the-others/1"

    with pytest.raises(ConfigError, match="a wire id has at most 64 characters"):
        Pipeline([TopK(0.1), Verbose(), Rice()])


def test_seeded_is_refused_with_another_seed_than_that_of_the_entries():
    with pytest.raises(CapabilityError, match=r"use seeded\(seed=11\), or leave it out"):
        fedplug.encoder("randomk(0.1, seed=11) | seeded")
    assert fedplug.encoder("randomk(0.1, seed=11) | seeded(seed=11)").wire_id == "sparse/1+seeded/1"


# Dense pipelines, and entropy coders ------------------------------------------------------------------------

QUANTIZERS = ["qsgd(8)", "qsgd(3, block_size=16)", "qsgd(rounding='nearest')", "sign"]
FLOAT32 = np.dtype("float32")
SPEC = ArraySpec((1000,), FLOAT32)


def normal(spec=SPEC):
    return np.random.default_rng(0).standard_normal(spec.shape).astype(spec.dtype)


def body(encoder, x, spec):
    return encoder.to_wire(encoder.encode(x, encoder.init_state(spec), 3)[0], spec)


ALONE = [QSGD(4), QSGD(rounding="nearest"), Sign(error_feedback=False), BFloat16()]


@pytest.mark.parametrize("quantizer", ALONE, ids=repr)
def test_a_quantizer_alone_writes_its_bytes_under_its_wire_id(quantizer):
    encoder, x = Pipeline([quantizer]), normal()
    payload, state = encoder.encode(x, encoder.init_state(SPEC), 3)
    code = quantizer.encode(x, 3)
    assert encoder.wire_id == quantizer.wire_id
    assert encoder.capabilities == quantizer.capabilities
    assert state == {}
    np.testing.assert_array_equal(encoder.to_wire(payload, SPEC), code)
    np.testing.assert_array_equal(encoder.decode(payload, SPEC), quantizer.decode(code, 1000, FLOAT32))
    lossless = quantizer.capabilities.lossless
    assert set(payload) == ({"values"} if lossless else {"value_code"})


@pytest.mark.parametrize("text", [*QUANTIZERS, "topk(0.5) | qsgd(4)"])
def test_an_entropy_coder_shortens_a_payload_and_changes_no_value(text):
    coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
    short, long = body(coded, normal(), SPEC), body(alone, normal(), SPEC)
    got = coded.decode(coded.from_wire(short, SPEC), SPEC)
    np.testing.assert_array_equal(got, alone.decode(alone.from_wire(long, SPEC), SPEC))
    assert len(short) <= len(long) + 1


def test_normal_values_of_four_bits_take_three_and_a_quarter():
    spec = ArraySpec((100_000,), FLOAT32)
    levels = 8 * len(body(fedplug.encoder("qsgd(4) | rans"), normal(spec), spec)) / 100_000 - 32 / 512
    assert 3.1 < levels < 3.4


def test_a_sparse_update_of_few_levels_takes_less_than_a_bit_an_element():
    spec = ArraySpec((100_000,), FLOAT32)
    x = np.where(np.arange(100_000) % 50 == 0, normal(spec), np.float32(0))
    assert len(body(fedplug.encoder("qsgd(2, block_size=1048576) | rans"), x, spec)) < 0.3 * 100_000 / 5


def test_it_has_the_promises_of_its_quantizer():
    for text in QUANTIZERS:
        coded, alone = fedplug.encoder(f"{text} | rans"), fedplug.encoder(text)
        assert coded.capabilities == dataclasses.replace(alone.capabilities, fixed_size=False)
        assert set(coded.init_state(SPEC)) == set(alone.init_state(SPEC))


def test_a_body_too_short_for_its_scales_is_refused():
    with pytest.raises(PayloadError, match="too short"):
        fedplug.encoder("qsgd(4) | rans").from_wire(np.zeros(5, np.uint8), SPEC)
