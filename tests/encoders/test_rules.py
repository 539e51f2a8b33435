"""Tests rules: the encoder of each tensor, and refused rules; and what the encoder of a model refuses."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  # bfloat16 by its name
import numpy as np
import pytest

import fedplug
from fedplug.encoders import Identity, ModelEncoder, Pipeline, Rule, Rules, TopK
from fedplug.errors import ConfigError, UnknownNameError
from fedplug.ops.types import ArraySpec

SPECS = [
    ArraySpec((500, 8), np.dtype("float32"), "embedding/table"),
    ArraySpec((80, 10), np.dtype("float32"), "dense/kernel"),
    ArraySpec((100,), np.dtype("bfloat16"), "dense/bias"),
    ArraySpec((10,), np.dtype("float32"), "dense_1/bias"),
]
BY_NAME = {"*/bias": "identity", "embedding*": "topk(0.001)", "*": "topk(0.1)"}


def test_the_first_rule_whose_pattern_matches_the_name_counts():
    sparser, denser = Pipeline([TopK(0.001)]), Pipeline([TopK(0.1)])
    assert Rules(BY_NAME).assign(SPECS) == [sparser, denser, Identity(), Identity()]


def test_rules_look_at_size_and_dtype_too():
    rules = [
        {"dtype": "bfloat16", "encoder": "qsgd(4)"},
        {"min_elements": 1000, "encoder": "topk(0.01)"},
        {"match": "*/kernel", "max_elements": 1000, "encoder": "topk(0.1) | qsgd(8)"},
    ]
    expected = ["topk(0.01)", "topk(0.1) | qsgd(8)", "qsgd(4)", "identity"]
    assert Rules(rules).assign(SPECS) == [fedplug.encoder(text) for text in expected]


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        ({"min_elements": 800}, True),
        ({"min_elements": 801}, False),
        ({"max_elements": 800}, True),
        ({"max_elements": 799}, False),
        ({"match": "dense/k[ef]rnel"}, True),
        ({"match": "Dense/kernel"}, False),
    ],
    ids=str,
)
def test_limits_are_included_and_capital_letters_differ(rule, applies):
    assert Rule("topk(0.1)", **rule).applies_to(SPECS[1]) is applies


def test_a_tensor_without_a_rule_is_sent_uncompressed():
    assert Rules({"dense/kernel": "topk(0.1)"}).assign(SPECS)[0] == Identity()


def test_small_tensors_and_integers_are_sent_uncompressed_whatever_the_rules():
    specs = [ArraySpec((10,), np.dtype("float32"), "a"), ArraySpec((100,), np.dtype("int32"), "b")]
    assert ModelEncoder(Rules({"*": "topk(0.1)"}), specs).encoders == (Identity(), Identity())
    assert ModelEncoder(TopK(0.1), specs, min_size=10).encoders == (Pipeline([TopK(0.1)]), Identity())


def test_a_whole_model_is_encoded_by_its_rules():
    model = ModelEncoder(Rules(BY_NAME), SPECS)
    xs = [np.random.default_rng(0).normal(size=spec.shape).astype(spec.dtype) for spec in SPECS]
    buffers, states = model.encode(xs, model.init_state(), 0)
    decoded = model.decode(buffers)
    assert [int(np.count_nonzero(tensor)) for tensor in decoded[:2]] == [4, 80]
    for x, d, state in zip(xs, decoded, states, strict=True):
        np.testing.assert_array_equal(d + state.get("residual", np.zeros_like(x)), x)
    assert model.get_config()["wire_ids"] == ["sparse/1", "sparse/1", "identity/1", "identity/1"]


def test_a_pipeline_keeps_the_promises_of_its_stages():
    assert Rules({"a": "topk(0.1)", "b": "identity"}).capabilities.needs_client_state
    assert Rules({"a": "qsgd(4)", "b": "identity"}).capabilities.unbiased
    assert not Rules({"a": "qsgd(4)", "b": "sign"}).capabilities.unbiased


def test_a_rule_for_no_tensor_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'dense/kernal' matches no tensor.*did you mean 'dense/kernel'"):
        Rules({"dense/kernal": "identity"}).assign(SPECS)
    with pytest.raises(ConfigError, match=r"'emb_\*' matches no tensor of the model; known: dense/bias, "):
        Rules({"emb_*": "identity"}).assign(SPECS)


def test_a_part_of_a_model_needs_no_tensor_for_every_rule():
    codec = fedplug.codec({"a*": "qsgd(8)", "b*": "topk(0.1)"}, exactly=["a3"])
    arrays = {name: np.ones(1000, np.float32) for name in ("a1", "a3", "b1")}
    whole, _ = codec.encode_model(arrays)
    for names in (["a1", "a3"], ["b1"]):
        part = {name: arrays[name] for name in names}
        payloads, _ = codec.for_part(part).encode_model(part)
        assert payloads == {name: whole[name] for name in names}
    other = {"c": arrays["a1"]}
    assert len(codec.for_part(other).encode_model(other)[0]["c"]) > 4000


def test_a_rule_that_comes_too_late_names_the_tensors_it_was_for():
    with pytest.raises(ConfigError, match=r"'\*/bias' comes too late: earlier ones take 'dense/bias', 'den"):
        Rules({"*": "topk(0.1)", "*/bias": "identity"}).assign(SPECS)


def test_a_rule_whose_size_fits_nothing_is_an_error():
    with pytest.raises(ConfigError, match="none of its size and dtype"):
        Rules([{"match": "*/bias", "min_elements": 1000, "encoder": "identity"}]).assign(SPECS)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "the rules are"),
        ("topk(0.1)", "the rules are"),
        ([], "the rules are"),
        (["topk(0.1)"], "is no rule"),
        ([{"match": "*"}], "names no encoder"),
        ({"*": "tpok(0.1)"}, "did you mean 'topk'"),
        ({"*": BY_NAME}, "must have a name and a config"),
        ({"*": None}, "encoder of a rule is None"),
        ({"": "identity"}, "match of a rule is ''"),
        ([{"min_elements": -1, "encoder": "identity"}], "min_elements of a rule is -1"),
        ([{"max_elements": 1.5, "encoder": "identity"}], "max_elements of a rule is 1.5"),
        ([{"dtype": "int32", "encoder": "identity"}], "dtype of a rule is 'int32'"),
    ],
)
def test_rules_that_are_not_valid_are_refused(rules, message):
    with pytest.raises(ConfigError, match=message):
        Rules(rules)


def test_an_unknown_key_of_a_rule_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'match'"):
        Rules([{"macth": "*", "encoder": "identity"}])


def test_a_rule_may_be_an_object():
    assert Rules([Rule(TopK(0.1), "a*")]) == Rules({"a*": "topk(0.1)"})


def test_an_encoder_that_changes_the_structure_of_its_state_is_refused():
    class Forgetful(Identity):
        def init_state(self, spec):
            return {"memory": np.zeros(())}

        def encode(self, x, state, round_num):
            return {"values": x}, {}

    model = ModelEncoder(Forgetful(), SPECS[1:2])
    with pytest.raises(ConfigError, match=r"got a state with \['memory'\] and returned \[\]"):
        model.encode([np.zeros((80, 10), np.float32)], model.init_state(), 0)


@pytest.mark.parametrize("min_size", [-1, 1.5, True])
def test_a_size_that_is_none_is_refused(min_size):
    with pytest.raises(ConfigError, match="min_size"):
        ModelEncoder(Identity(), SPECS, min_size=min_size)


@pytest.mark.needs("tensorflow")
def test_unknown_shapes_are_refused():
    import tensorflow as tf

    with pytest.raises(ConfigError, match="tensor 0 of the model has shape"):
        ModelEncoder(Identity(), [tf.TensorSpec([None], tf.float32)])
