"""Whole rounds: rounds are chosen by the loss, clients without data do no harm."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tensorflow_federated as tff
from fedplug_adaptive.layer_weights import layer_divergences
from fedplug_adaptive.process import build_adaptive_fed_avg

import fedplug
from fedplug.errors import ConfigError


@pytest.fixture(scope="module")
def build(model_fn):
    def make(**options):
        return build_adaptive_fed_avg(model_fn, tff.learning.optimizers.build_sgdm(0.1), **options)

    return make


@pytest.fixture(scope="module")
def process(build):
    return build(layers=[0, 0, 1, 1], temperature=1e-4)


def next_round(process, state, datasets):
    return process.next(state, datasets, [process.initialize_client()] * len(datasets))


def flat(state):
    return np.concatenate([np.ravel(w) for w in state.global_model_weights.trainable])


@pytest.mark.slow
def test_plain_rounds_are_federated_averaging(build, model_fn, client):
    datasets = [client(seed, examples) for seed, examples in ((1, 4), (2, 8), (3, 12))]
    reference = fedplug.tff.process.build_weighted_fed_avg(model_fn, tff.learning.optimizers.build_sgdm(0.1))
    ends = [
        flat(next_round(process, process.initialize(), datasets)["state"])
        for process in (build(weighting="plain"), reference)
    ]
    np.testing.assert_allclose(*ends, atol=1e-6)


@pytest.mark.slow
def test_the_metrics_are_those_of_federated_averaging_and_two_more(process, model_fn, client):
    plain = fedplug.tff.process.build_weighted_fed_avg(model_fn, tff.learning.optimizers.build_sgdm(0.1))
    ours, theirs = (
        next_round(each, each.initialize(), [client(1), client(2)])["metrics"] for each in (process, plain)
    )
    assert {name: set(metrics) for name, metrics in theirs.items() if name != "finalizer"} == {
        "distributor": {"downlink_bytes"},
        "client_work": set(ours["client_work"]),
        "aggregator": set(ours["aggregator"]) - {"adaptive", "report"},
    }
    assert ours["distributor"]["downlink_bytes"] == theirs["distributor"]["downlink_bytes"] > 0


def test_a_client_reports_the_distance_of_its_model_from_the_servers(process, client):
    before = process.initialize()
    output = next_round(process, before, [client(1)])
    server, trained = (state.global_model_weights.trainable for state in (before, output["state"]))
    want = layer_divergences(trained, server, [0, 0, 1, 1])
    np.testing.assert_allclose(output["metrics"]["aggregator"]["report"], want, rtol=1e-4)


def test_a_round_is_adaptive_when_the_loss_has_not_fallen(process, client):
    state, losses, adaptive = process.initialize(), [np.inf], []
    for seed in range(8):
        output = next_round(process, state, [client(seed)])
        state = output["state"]
        losses.append(output["metrics"]["client_work"]["train"]["loss"])
        adaptive.append(bool(output["metrics"]["aggregator"]["adaptive"]))
    assert adaptive == [bool(now >= before) for before, now in pairwise(losses)]
    assert {True, False} == set(adaptive)


def test_a_round_of_clients_without_data_changes_no_weights(process, client):
    state = process.initialize()
    output = next_round(process, state, [client(1, 0), client(2, 0)])
    np.testing.assert_array_equal(flat(output["state"]), flat(state))
    assert output["metrics"]["aggregator"]["payloads"] == 0


def test_a_client_without_data_among_others_is_as_if_it_were_not_there(process, client):
    first = next_round(process, process.initialize(), [client(1), client(2, 0)])
    second = next_round(process, process.initialize(), [client(1)])
    np.testing.assert_array_equal(flat(first["state"]), flat(second["state"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [0, 0, 1]}, "layers has 3 numbers for 4 trainable tensors"),
        ({"min_size": 4}, "min_size is 4, which would encode the reports of 4 layers"),
        ({"weighting": "always"}, "weighting is 'always'; it must be one of auto, adaptive, plain"),
        ({"temperature": -1}, "temperature is -1"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(build, options, message):
    with pytest.raises(ConfigError, match=message):
        build(**options)


def test_the_readme_builds_a_process_and_a_trainer(model_fn, client):
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {
        "fedplug": fedplug,
        "model_fn": model_fn,
        "client_data": {str(seed): client(seed) for seed in range(10)},
    }
    exec(block, names | {"client_optimizer": tff.learning.optimizers.build_sgdm(0.1)})
