"""Tests rules and budgets in processes: names of variables, encoders by name, and the byte budget."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.process import build_aggregation_factory, build_weighted_fed_avg, variable_names

RULES = {"*/bias": "identity", "dense/kernel": "topk(0.1)", "dense_1/*": "topk(0.5) | qsgd(4)"}


pytestmark = pytest.mark.usefixtures("inprocess")


def encoders_of(process):
    """The wire id of every tensor."""
    return process.signature["encoder"]["wire_ids"]


def test_a_keras_models_variables_are_called_as_its_layers_however_often_it_was_made(model_fn):
    model_fn()
    for _ in range(2):
        assert variable_names(model_fn).trainable == [
            "dense/kernel",
            "dense/bias",
            "dense_1/kernel",
            "dense_1/bias",
        ]


def test_each_tensor_is_encoded_by_its_rule(model_fn, sgd):
    process = build_weighted_fed_avg(model_fn, sgd, encoder=RULES, min_size=0)
    assert encoders_of(process) == ["sparse/1", "identity/1", "sparse/1+qsgd/1", "identity/1"]
    kept = [sorted(state) for state in process.initialize_client()]
    assert kept == [["residual"], [], ["residual"], []]


def test_a_rule_for_no_variable_names_the_nearest(model_fn, sgd):
    with pytest.raises(ConfigError, match=r"'dens/kernel' matches no tensor.*did you mean 'dense/kernel'"):
        build_weighted_fed_avg(model_fn, sgd, encoder={"dens/kernel": "topk(0.1)"})


def test_rules_of_a_factory_match_value_paths_or_given_names(model_fn):
    vector = tff.TensorType(np.float32, [100])
    stateless = "randomk(0.1)"
    build_aggregation_factory({"a/*": stateless}).create(
        tff.to_type({"a": (vector, vector)}), tff.TensorType(np.float32)
    )
    named = build_aggregation_factory({"*/kernel": stateless}, names=["x/kernel", "x/bias"])
    named.create(tff.to_type((vector, vector)), tff.TensorType(np.float32))
    with pytest.raises(ConfigError, match="2 names for 1 tensors"):
        named.create(vector, tff.TensorType(np.float32))
    with pytest.raises(ConfigError, match=r"no names but their places: .* names="):
        build_aggregation_factory({"*/kernel": stateless}).create(
            tff.to_type((vector, vector)), tff.TensorType(np.float32)
        )
