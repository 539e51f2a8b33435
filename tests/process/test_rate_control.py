"""Rate control that a plugin package brings: up and down, on both runtimes, across a restart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fedplug
from fedplug.registry import resolve
from fedplug.runtime import use_runtime

PLUGIN = Path(__file__).parents[1] / "rate_control_plugin"
STEP, LIMIT, LIMIT_DOWN = 0.125, 700, 500


@pytest.fixture
def plugin(monkeypatch):
    """The package is installed, as far as the registry can see."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    resolve.catalog.cache_clear()
    yield
    resolve.catalog.cache_clear()
    for module in [name for name in sys.modules if name.startswith("fedplug_halving")]:
        del sys.modules[module]


def expected_rate(rate, sent, limit):
    return rate / 2 if sent > limit else rate + STEP


def rounds(process, datasets, number):
    state, clients = process.initialize(), [process.initialize_client()] * len(datasets)
    metrics = []
    for _ in range(number):
        output = process.next(state, datasets, clients)
        state, clients = output["state"], output["client_states"]
        metrics.append(output["metrics"])
    return metrics, state


@pytest.mark.parametrize("runtime", ["inprocess", "native"])
def test_a_plugins_budget_steers_what_clients_send(plugin, runtime, model_fn, sgd, dataset):
    with use_runtime(runtime):
        process = fedplug.process.build_weighted_fed_avg(
            model_fn, sgd, encoder=f"halving('topk(0.5)', {LIMIT})", min_size=8
        )
        metrics, _ = rounds(process, [dataset(seed) for seed in range(3)], 6)
    rate, sent = 1.0, []
    for each in metrics:
        told = each["aggregator"]
        assert told["rate"] == pytest.approx(rate)
        assert told["entries"] > 0
        sent.append(int(told["uplink_bytes"]))
        rate = expected_rate(rate, sent[-1], 3 * LIMIT)
    assert sent[0] > 3 * LIMIT > min(sent)


def test_both_runtimes_agree_to_the_last_bit_of_what_is_measured(plugin, model_fn, sgd, dataset):
    found = []
    for runtime in ("inprocess", "native"):
        with use_runtime(runtime):
            process = fedplug.process.build_weighted_fed_avg(
                model_fn, sgd, encoder=f"halving('topk(0.5)', {LIMIT})", min_size=8
            )
            metrics, _ = rounds(process, [dataset(seed) for seed in range(2)], 3)
            found.append(
                [(float(m["aggregator"]["rate"]), int(m["aggregator"]["uplink_bytes"])) for m in metrics]
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["halving", "budget"])
@pytest.mark.parametrize("runtime", ["inprocess", "native"])
def test_the_same_works_down(plugin, runtime, name, model_fn, sgd, dataset):
    encoder = f"{name}('topk(0.5)', {LIMIT_DOWN})"
    with use_runtime(runtime):
        process = fedplug.process.build_weighted_fed_avg(model_fn, sgd, broadcast_encoder=encoder, min_size=8)
        datasets = [dataset(seed) for seed in range(2)]
        metrics, state = rounds(process, datasets, 6)
    sent = [int(each["distributor"]["downlink_bytes"]) for each in metrics]
    assert sent[1] > 2 * LIMIT_DOWN >= 0.95 * min(sent[2:])
    assert float(state.distributor["control"]["rate"]) != 1.0


def test_it_goes_on_after_a_restart(plugin, model_fn, sgd, dataset, tmp_path):
    def rates(store, number):
        with use_runtime("inprocess"), fedplug.open_store(store) as opened:
            process = fedplug.process.build_weighted_fed_avg(
                model_fn, sgd, encoder=f"halving('topk(0.5)', {LIMIT})", min_size=8
            )
            clients = {str(seed): dataset(seed) for seed in range(3)}
            trainer = fedplug.Trainer(process, clients, clients_per_round=2, store=opened)
            trainer.run(number)
            return float(trainer.last_metrics["aggregator"]["rate"])

    whole = rates(f"sqlite:///{tmp_path / 'one'}", 4)
    rates(f"sqlite:///{tmp_path / 'two'}", 2)
    assert rates(f"sqlite:///{tmp_path / 'two'}", 4) == whole
