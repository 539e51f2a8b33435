"""Rules and budgets in whole processes: names of variables, what is sent for which, bytes that are held."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.encoders import Rules
from fedplug.errors import CapabilityError, ConfigError
from fedplug.process import build_aggregation_factory, build_weighted_fed_avg, variable_names
from fedplug.runtime import use_runtime

RULES = {"*/bias": "identity", "dense/kernel": "topk(0.1)", "dense_1/*": "topk(0.5) | qsgd(4)"}


@pytest.fixture(scope="module", autouse=True)
def _inprocess():
    with use_runtime("inprocess"):
        yield


@pytest.fixture(scope="module")
def wide_model_fn():
    """Enough elements for 2 % of a budget to be more than an entry."""

    def build():
        layers = [
            tf.keras.layers.InputLayer((20,)),
            tf.keras.layers.Dense(64, "relu", kernel_initializer=tf.keras.initializers.GlorotUniform(1)),
            tf.keras.layers.Dense(32, "relu", kernel_initializer=tf.keras.initializers.GlorotUniform(2)),
            tf.keras.layers.Dense(5, kernel_initializer=tf.keras.initializers.GlorotUniform(3)),
        ]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            input_spec=(tf.TensorSpec([None, 20], tf.float32), tf.TensorSpec([None], tf.int32)),
        )

    return build


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


def test_the_weights_of_a_functional_model_are_called_by_their_place():
    weights = ((np.zeros([2, 3], np.float32), np.zeros(3, np.float32)), ())
    model = tff.learning.models.FunctionalModel(
        initial_weights=weights,
        predict_on_batch_fn=tf.function(lambda weights, x, training: x),
        loss_fn=tf.function(lambda output, label, sample_weight=None: tf.reduce_sum(output)),
        input_spec=(tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32)),
    )
    assert variable_names(model).trainable == ["0", "1"]


def test_each_tensor_is_encoded_by_its_rule(model_fn, sgd, dataset):
    process = build_weighted_fed_avg(model_fn, sgd, encoder=RULES, min_size=0)
    assert encoders_of(process) == ["topk/1", "identity/1", "sparse+qsgd/1+rice/1", "identity/1"]
    start = process.initialize()
    output = process.next(start, [dataset(1)], [process.initialize_client()])
    changed = [
        int(np.count_nonzero(np.asarray(a) != np.asarray(b)))
        for a, b in zip(
            output["state"].global_model_weights.trainable, start.global_model_weights.trainable, strict=True
        )
    ]
    assert changed[0] == 32
    assert changed[2] <= 40
    kept = [sorted(state) for state in output["client_states"][0]]
    assert kept == [["residual"], [], ["residual"], []]


def test_rules_can_be_written_as_a_list_an_object_or_an_expression(model_fn, sgd):
    forms = [RULES, Rules(RULES), f"rules({RULES})", [{"match": m, "encoder": e} for m, e in RULES.items()]]
    signatures = [build_weighted_fed_avg(model_fn, sgd, encoder=form).signature for form in forms]
    assert all(signature == signatures[0] for signature in signatures)


def test_a_rule_for_no_variable_names_the_nearest(model_fn, sgd):
    with pytest.raises(ConfigError, match=r"'dens/kernel' matches no tensor.*did you mean 'dense/kernel'"):
        build_weighted_fed_avg(model_fn, sgd, encoder={"dens/kernel": "topk(0.1)"})


def test_in_a_factory_rules_go_by_the_paths_of_the_values_or_by_given_names(model_fn):
    vector = tff.TensorType(np.float32, [100])
    stateless = "randomk(0.1)"
    build_aggregation_factory({"a/*": stateless}).create(
        tff.to_type({"a": (vector, vector)}), tff.TensorType(np.float32)
    )
    named = build_aggregation_factory({"*/kernel": stateless}, names=["x/kernel", "x/bias"])
    named.create(tff.to_type((vector, vector)), tff.TensorType(np.float32))
    with pytest.raises(ConfigError, match="2 names for 1 tensors"):
        named.create(vector, tff.TensorType(np.float32))


def test_in_a_factory_a_rule_with_client_state_is_refused():
    with pytest.raises(CapabilityError, match="state"):
        build_aggregation_factory({"*": "topk(0.1)"})


def rounds_of(model_fn, sgd, dataset, encoder, rounds=8):
    """Bytes of the mean payload in each round, and the metrics of the last."""
    process = build_weighted_fed_avg(model_fn, sgd, encoder=encoder)
    data = {f"client {i}": dataset(i, examples=20) for i in range(6)}
    trainer = fedplug.Trainer(process, data, clients_per_round=4)
    sizes = []

    def record(round_num, state, metrics):
        sizes.append(int(metrics["aggregator"]["uplink_bytes"]) / int(metrics["aggregator"]["payloads"]))

    trainer.run(rounds, record)
    return sizes, trainer.last_metrics["aggregator"]


@pytest.mark.parametrize(
    ("encoder", "target"),
    [
        ("topk(0.02, scope='model') | qsgd(8)", 900),
        ("topk(0.5)", 1500),
        ("rules({'dense/*': 'topk(0.05)', '*': 'qsgd(4)'})", 3000),
        ("randomk(0.5, error_feedback=True)", 1500),
    ],
)
def test_a_budget_of_bytes_is_held_within_two_percent(wide_model_fn, sgd, dataset, encoder, target):
    budget = fedplug.get_encoder("budget", encoder=encoder, bytes_per_client=target)
    sizes, metrics = rounds_of(wide_model_fn, sgd, dataset, budget)
    assert abs(sizes[0] / target - 1) > 0.1
    assert all(abs(size / target - 1) < 0.02 for size in sizes[4:])
    assert metrics["rate"] != 1


def test_an_error_is_reached(wide_model_fn, sgd, dataset):
    sizes, metrics = rounds_of(wide_model_fn, sgd, dataset, "budget('stc(0.5)', nmse=0.5)", rounds=12)
    assert abs(metrics["nmse"] - 0.5) < 0.06
    assert sizes[-1] < sizes[0]


def test_a_budget_below_what_is_fixed_is_refused(model_fn, sgd):
    with pytest.raises(ConfigError, match="a budget of 200 bytes leaves nothing to adjust"):
        build_weighted_fed_avg(model_fn, sgd, encoder="budget('topk(0.1)', 200)")


def test_a_budget_is_not_for_broadcasts(model_fn, sgd):
    with pytest.raises(CapabilityError, match="follows what clients sent"):
        build_weighted_fed_avg(model_fn, sgd, broadcast_encoder="budget('topk(0.1)', 5000)")


def test_without_a_budget_the_metrics_are_those_there_always_were(model_fn, sgd):
    metrics = build_weighted_fed_avg(model_fn, sgd).next.type_signature.result["metrics"].member
    assert [name for name, _ in tff.structure.iter_elements(metrics["aggregator"])] == [
        "uplink_bytes",
        "clients",
        "payloads",
        "nonfinite_updates",
    ]
