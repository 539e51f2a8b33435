"""The models of users: what is built, which loss and metrics it gets, and that each mistake is one line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import ModelConfig
from fedplug.tff.experiment.data import Examples, FederatedData
from fedplug.tff.experiment.model.builder import ModelBuilder
from fedplug.tff.experiment.model.evaluator import Evaluator

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
LABELS = Examples(X, np.arange(8, dtype=np.int32) % 3)
VALUES = Examples(X, X[:, 0] * 2)

FUNCTIONS = """
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

def dense(outputs, activation=None):
    layers = [tf.keras.Input((3,)), tf.keras.layers.Dense(outputs, activation)]
    return tf.keras.Sequential(layers)
def of_spec(element_spec):
    return dense(element_spec[0].shape[1])
def compiled():
    model = dense(3)
    model.compile()
    return model
def unbuilt():
    return tf.keras.Sequential([tf.keras.layers.Dense(3)])
def text():
    return "model"
def wide():
    return tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3)])
def fails():
    raise KeyError("weights")
def functional():
    return tff.learning.models.functional_model_from_keras(
        dense(3),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        (tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.int32)),
        lambda: __import__("collections").OrderedDict(good=tf.keras.metrics.SparseCategoricalAccuracy()),
    )
def variable():
    return tff.learning.models.from_keras_model(
        dense(3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.int32)),
        metrics=[tf.keras.metrics.SparseCategoricalAccuracy("good")],
    )
def other_variable():
    return tff.learning.models.from_keras_model(
        wide(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        input_spec=(tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.int32)),
    )
def huber():
    return tf.keras.losses.Huber(2.0)
def top2():
    return tf.keras.metrics.SparseTopKCategoricalAccuracy(2)
"""


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Builds a model with the functions above beside the configuration."""
    name = f"models_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def build(examples, function="", **keys):
        data = FederatedData({"a": examples, "b": examples}, examples)
        mine = {key: f"{name}{keys[key]}" for key in ("loss",) if keys.get(key, "").startswith(":")}
        if "metrics" in keys:
            mine["metrics"] = tuple(f"{name}{m}" if m.startswith(":") else m for m in keys["metrics"])
        config = ModelConfig(build=function and f"{name}:{function}", **{**keys, **mine})
        return ModelBuilder(config, data, tmp_path), data

    return build


def evaluate(builder, data):
    return Evaluator(builder, data.test).evaluate(builder.initial_weights(0))


@pytest.mark.parametrize(
    ("x", "config", "outputs"),
    [
        (X, {"hidden": ()}, 3),
        (np.zeros((8, 5, 4, 2), np.float32), {"filters": (3,), "hidden": (6,)}, 3),
        (np.arange(24, dtype=np.int32).reshape(8, 3), {"hidden": (6,)}, 3),
    ],
)
def test_the_built_in_network_has_the_shape_of_the_data(built, x, config, outputs) -> None:
    builder, data = built(Examples(x, LABELS.y), **config)
    assert builder.build(0).output_shape == (None, outputs)
    assert list(evaluate(builder, data)) == ["test_accuracy"]


def test_equal_seeds_give_equal_weights_also_of_a_function_without_one(built) -> None:
    for builder, _ in (built(LABELS), built(LABELS, "dense", arguments={"outputs": 3})):
        one, same, other = (builder.build(seed).get_weights()[0] for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


def test_accuracy_is_the_exact_fraction_of_right_answers(built) -> None:
    builder, data = built(LABELS)
    model = builder.build(0)
    right = np.argmax(model(X).numpy(), axis=1) == LABELS.y
    assert evaluate(builder, data) == {"test_accuracy": np.mean(right)}


def test_values_get_the_squared_error_and_show_the_absolute_one(built) -> None:
    builder, data = built(VALUES, "dense", arguments={"outputs": 1})
    model = builder.build(0)
    assert isinstance(builder.loss(model), tf.keras.losses.MeanSquaredError)
    expected = np.abs(model(X).numpy()[:, 0] - VALUES.y).mean()
    assert evaluate(builder, data) == {"test_mean_absolute_error": pytest.approx(expected, rel=1e-6)}


@pytest.mark.parametrize(("activation", "logits"), [(None, True), ("softmax", False)])
def test_the_cross_entropy_follows_the_last_layer_of_the_model(built, activation, logits) -> None:
    for keys in ({}, {"loss": "sparse_categorical_crossentropy"}):
        arguments = {"outputs": 3, "activation": activation}
        builder, _ = built(LABELS, "dense", arguments=arguments, **keys)
        assert builder.loss(builder.build(0)).get_config()["from_logits"] is logits


def test_losses_and_metrics_have_names_of_keras_or_functions(built) -> None:
    metrics = (":top2", "SparseCategoricalAccuracy", "sparse_categorical_crossentropy")
    builder, data = built(LABELS, "dense", arguments={"outputs": 3}, metrics=metrics)
    found = evaluate(builder, data)
    assert list(found) == [
        "test_accuracy",
        "test_sparse_categorical_accuracy",
        "test_sparse_categorical_crossentropy",
    ]
    assert found["test_accuracy"] >= found["test_sparse_categorical_accuracy"]
    builder, _ = built(VALUES, "dense", arguments={"outputs": 1}, loss=":huber", metrics=("mse",))
    assert builder.loss(builder.build(0)).get_config()["delta"] == 2.0


@pytest.mark.parametrize("function", ["functional", pytest.param("variable", marks=pytest.mark.slow)])
def test_a_model_of_tff_brings_its_own_metrics(built, function) -> None:
    builder, data = built(LABELS, function)
    weights = builder.initial_weights(0)
    kernel, bias = map(np.asarray, weights.trainable)
    logits = X @ kernel + bias
    right = np.mean(np.argmax(logits, axis=1) == LABELS.y)
    assert Evaluator(builder, data.test).evaluate(weights) == {"test_good": pytest.approx(right)}


def test_the_type_of_a_batch_is_offered_to_the_function(built) -> None:
    builder, _ = built(LABELS, "of_spec")
    assert builder.build(0).output_shape == (None, 3)


@pytest.mark.parametrize(
    ("examples", "function", "keys", "message"),
    [
        (LABELS, "text", {}, "returned a str; it must be a Keras model"),
        (LABELS, "compiled", {}, "returned a compiled model; write loss and metrics into"),
        (LABELS, "unbuilt", {}, "returned a model without weights; give its first layer an input shape"),
        (LABELS, "fails", {}, "failed: KeyError: 'weights'"),
        (LABELS, "dense", {}, "cannot be called: missing a required argument: 'outputs'"),
        (LABELS, "dens", {}, "unknown function 'dens' .*did you mean 'dense'"),
        (LABELS, "wide", {}, r"rejects examples .*float32\[batch, 3\]"),
        (
            LABELS,
            "dense",
            {"arguments": {"outputs": 2}},
            "labels up to 2, but .* has 2 outputs; .* at least 3",
        ),
        (LABELS, "other_variable", {}, "returned a model of .* it must accept the clients' data"),
        (LABELS, "variable", {"loss": "mse"}, "has its own loss and metrics: leave these out"),
        (LABELS, "", {"loss": "mean_sqared_error"}, "unknown Keras loss .*did you mean 'mean_squared_error'"),
        (LABELS, "", {"metrics": ("acuracy",)}, "unknown Keras metric .*did you mean 'accuracy'"),
        (LABELS, "", {"metrics": ("mse", "mse")}, "their names must be different"),
        (LABELS, "", {"loss": ":text"}, "returned a str; it must be a Keras loss"),
        (LABELS, "", {"metrics": ("MeanIoU",)}, "needs arguments .*name a function that creates it"),
        (
            LABELS,
            "",
            {"filters": (3,)},
            r"filters is \[3\]; it must be left out, because inputs of shape \[3\]",
        ),
    ],
)
def test_an_invalid_model_is_an_error_of_one_line(built, examples, function, keys, message) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        built(examples, function, **keys)
    assert "[model]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_clients_whose_classes_cannot_be_seen_need_a_model(built) -> None:
    def batches(round_num):
        return tf.data.Dataset.from_tensor_slices(tuple(LABELS)).batch(4)

    data = FederatedData({"a": batches}, LABELS)
    with pytest.raises(ConfigError, match=r"\[model\] has no build; it must name a function"):
        ModelBuilder(ModelConfig(), data)


def test_test_examples_of_another_type_than_the_clients_are_refused() -> None:
    data = FederatedData({"a": LABELS}, VALUES)
    with pytest.raises(ConfigError, match=r"test examples are .* they must be .* like those of the clients"):
        ModelBuilder(ModelConfig(), data)
