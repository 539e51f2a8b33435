"""Tests encoders of differences in rounds on both runtimes, also after a restart."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug.errors import ConfigError
from fedplug.stores import open_store
from fedplug.tff.process import build_weighted_fed_avg
from fedplug.tff.runtime import use_runtime
from fedplug.tff.training.trainer import Trainer

CLIENTS = 4


def weights_of(state):
    return [np.asarray(w) for w in state.global_model_weights.trainable]


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


def test_both_runtimes_give_the_same_bits_and_so_does_a_run_that_was_stopped(build, client_data, tmp_path):
    url = f"sqlite:///{tmp_path / 'store'}"
    with use_runtime("inprocess"):
        process = build(CLIENTS)
        straight, state = trained(process, client_data, 6)
        with open_store(url) as store:
            trained(process, client_data, 3, store)
        with open_store(url) as store:
            _, resumed = trained(process, client_data, 6, store)
    with use_runtime("native"):
        native, other = trained(build(CLIENTS), client_data, 6)
    for ours, theirs, after_a_stop in zip(*map(weights_of, (state, other, resumed)), strict=True):
        np.testing.assert_array_equal(after_a_stop, ours)
        np.testing.assert_allclose(theirs, ours, atol=1e-6)
    assert straight.last_metrics["aggregator"]["payloads"] == 2
    assert native.last_metrics["aggregator"]["payloads"] == 2


def test_the_server_adds_its_memory_and_the_mean_of_the_senders_differences(build, client_data):
    """Tests PP2 against the memories of all clients in the store."""
    with use_runtime("inprocess"):
        trainer = Trainer(build(CLIENTS), client_data, clients_per_round=2, seed=3)
        state = trainer.initialize()
        known = [np.zeros_like(weight) for weight in weights_of(state)]
        for round_num in range(1, 6):
            before = weights_of(state)
            state = trainer.next(state, trainer.select(round_num)).state
            clients = trainer.client_states(trainer.client_ids).values()
            for place, (old, new) in enumerate(zip(before, weights_of(state), strict=True)):
                memory = np.mean([client[place]["memory"] for client in clients], axis=0)
                update = known[place] + CLIENTS * (memory - known[place]) / 2
                assert np.any(update)
                # TFF subtracts an update, as a gradient.
                np.testing.assert_allclose(new, old - update, atol=1e-6)
                known[place] = memory


def test_a_non_finite_update_changes_neither_the_clients_memory_nor_the_server(build, dataset):
    with use_runtime("inprocess"):
        process = build(2)
        clients = [process.initialize_client() for _ in range(2)]
        first = process.next(process.initialize(), [dataset(1), dataset(2)], clients)
        bad = [dataset(1, poisoned=True), dataset(2, poisoned=True)]
        second = process.next(first["state"], bad, first["client_states"])
    assert second["metrics"]["aggregator"]["nonfinite_updates"] == 2
    memories = [output["state"].aggregator["inner"]["memory"] for output in (first, second)]
    for before, after in zip(*memories, strict=True):
        np.testing.assert_array_equal(before, after)
    for ours, theirs in zip(first["client_states"], second["client_states"], strict=True):
        for before, after in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(before["memory"], after["memory"])


def test_another_number_of_clients_than_the_memory_is_a_mean_of_is_refused(build, client_data):
    with use_runtime("inprocess"):
        process = build(5)
    with pytest.raises(ConfigError, match=r"for 5 clients.*has 4; build it with memory_mean\(4\)"):
        Trainer(process, client_data)
