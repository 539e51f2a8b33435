"""Tests parts of a learning process: proximal term, constraints on weights, memories, rate control."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import ConfigError
from fedplug.registry import resolve
from fedplug.stores import open_store
from fedplug.tff.process import build_weighted_fed_avg, constrain_weights
from fedplug.tff.process.learning.components import ProximalOptimizer
from fedplug.tff.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("inprocess")

RATE, STEPS = 0.1, 3


def line():
    """The model ``w x``, from w = 0."""
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=(1,))
    return tff.learning.models.from_keras_model(
        tf.keras.Sequential([layer]),
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=(tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None, 1], tf.float32)),
    )


@pytest.fixture(scope="module")
def ones():
    """A client whose examples have y = x = 1, with one step each."""
    return tf.data.Dataset.from_tensor_slices((np.ones((STEPS, 1), np.float32),) * 2).batch(1)


def by_hand(pull, start=0.0):
    """The result of gradient descent on ``(w - 1)^2`` with the additional gradient ``pull (w - start)``."""
    w = start
    for _ in range(STEPS):
        w -= RATE * (2 * (w - 1) + pull * (w - start))
    return w


def test_clients_are_pulled_to_the_model_of_the_round_as_the_paper_says(ones, sgd):
    process = build_weighted_fed_avg(line, ProximalOptimizer(sgd, 2.0))
    first = process.next(process.initialize(), [ones], [process.initialize_client()])
    w = first["state"].global_model_weights.trainable[0].item()
    assert w == pytest.approx(by_hand(2.0))
    second = process.next(first["state"], [ones], first["client_states"])
    assert second["state"].global_model_weights.trainable[0].item() == pytest.approx(by_hand(2.0, w))


def test_the_learning_rate_is_that_of_the_other_optimizer(sgd):
    optimizer = ProximalOptimizer(sgd, 1.0)
    state = optimizer.initialize((tf.TensorSpec([2]),))
    rate = {"learning_rate": 0.5}
    assert optimizer.get_hparams(optimizer.set_hparams(state, {**optimizer.get_hparams(state), **rate})) == {
        **sgd.get_hparams(sgd.initialize((tf.TensorSpec([2]),))),
        **rate,
    }


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf"), True, "0.1"])
def test_a_strength_that_is_none_is_refused(model_fn, sgd, strength):
    with pytest.raises(ConfigError, match="the strength of a proximal term is"):
        ProximalOptimizer(sgd, strength)


@pytest.fixture(scope="module")
def process(model_fn, sgd, inprocess):
    return build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.1)")


def weights_of(state):
    return [np.asarray(w) for w in state.global_model_weights.trainable]


def test_the_weights_are_projected_at_the_start_and_after_a_round_and_nothing_else_changes(
    process, dataset
) -> None:
    constraints = [tf.keras.constraints.NonNeg(), None, tf.keras.constraints.MaxNorm(0.5), None]
    constrained = constrain_weights(process, constraints)
    start = constrained.initialize()

    def projected(state):
        free = zip(weights_of(state), constraints, strict=True)
        return [w if constraint is None else constraint(tf.constant(w)).numpy() for w, constraint in free]

    tf.nest.map_structure(np.testing.assert_array_equal, weights_of(start), projected(process.initialize()))
    client = [process.initialize_client()]
    ours = constrained.next(start, [dataset(1)], client)
    theirs = process.next(start, [dataset(1)], client)
    for found, expected in zip(weights_of(ours["state"]), projected(theirs["state"]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    tf.nest.map_structure(np.testing.assert_array_equal, ours["client_states"], theirs["client_states"])
    tf.nest.map_structure(np.testing.assert_array_equal, ours["metrics"], theirs["metrics"])


def test_the_types_and_the_signature_stay_so_that_a_trainer_and_a_store_take_it_as_before(process) -> None:
    constrained = constrain_weights(process, [tf.keras.constraints.NonNeg()] * 4)
    assert constrained.next.type_signature.is_equivalent_to(process.next.type_signature)
    assert (constrained.signature, constrained.tensors) == (process.signature, process.tensors)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([None], "1 constraints for 4 trainable tensors"),
        ([None, lambda w: w[:1], None, None], "constraint 1 makes"),
    ],
)
def test_constraints_are_one_for_every_tensor_and_keep_its_shape(process, constraints, message) -> None:
    with pytest.raises(ConfigError, match=message):
        constrain_weights(process, constraints)


CLIENTS = 4


@pytest.fixture(scope="module")
def client_data(dataset):
    return {f"client {seed}": dataset(seed, examples=5 + 3 * seed) for seed in range(CLIENTS)}


def trained(process, client_data, rounds, store=None):
    trainer = Trainer(process, client_data, clients_per_round=2, seed=3, store=store)
    return trainer, trainer.run(rounds)


@pytest.fixture
def build(model_fn, sgd):
    """Returns ``build(clients)``, which makes a process with the memories of so many clients."""
    return lambda clients: build_weighted_fed_avg(
        model_fn, sgd, encoder="ef21('topk(0.1)')", aggregator=f"memory_mean({clients})"
    )


def test_a_run_with_memories_that_was_stopped_ends_with_the_same_bits(build, client_data, tmp_path):
    url, process = f"sqlite:///{tmp_path / 'store'}", build(CLIENTS)
    straight, state = trained(process, client_data, 6)
    with open_store(url) as store:
        trained(process, client_data, 3, store)
    with open_store(url) as store:
        _, resumed = trained(process, client_data, 6, store)
    for ours, after_a_stop in zip(*map(weights_of, (state, resumed)), strict=True):
        np.testing.assert_array_equal(after_a_stop, ours)
    assert straight.last_metrics["aggregator"]["payloads"] == 2


def test_another_number_of_clients_than_the_memory_is_a_mean_of_is_refused(build, client_data):
    process = build(5)
    for each in (process, constrain_weights(process, [None] * 4)):
        with pytest.raises(ConfigError, match=r"for 5 clients.*has 4; build it with memory_mean\(4\)"):
            Trainer(each, client_data)


PLUGIN = Path(__file__).parents[2] / "rate_control_plugin"
STEP, LIMIT = 0.125, 700


@pytest.fixture
def plugin(monkeypatch):
    """Makes the registry see the package as installed."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    resolve.catalog.cache_clear()
    yield
    resolve.catalog.cache_clear()
    for module in [name for name in sys.modules if name.startswith("fedplug_halving")]:
        del sys.modules[module]


def rounds(process, datasets, number):
    state, clients = process.initialize(), [process.initialize_client()] * len(datasets)
    metrics = []
    for _ in range(number):
        output = process.next(state, datasets, clients)
        state, clients = output["state"], output["client_states"]
        metrics.append(output["metrics"])
    return [dict(each["aggregator"]) for each in metrics]


def test_a_plugins_budget_steers_what_clients_send(plugin, model_fn, sgd, dataset):
    encoder, datasets = f"halving('topk(0.5)', {LIMIT})", [dataset(seed) for seed in range(2)]
    process = fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=encoder, min_size=8)
    rate, found = 1.0, rounds(process, datasets, 4)
    for metrics in found:
        assert float(metrics["rate"]) == rate
        assert metrics["entries"] > 0
        rate = rate / 2 if metrics["uplink_bytes"] > len(datasets) * LIMIT else rate + STEP
    sent = [int(metrics["uplink_bytes"]) for metrics in found]
    assert sent[0] > len(datasets) * LIMIT > min(sent)
