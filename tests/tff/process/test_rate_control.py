"""Tests rate control from a plugin package on both runtimes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fedplug
from fedplug.registry import resolve
from fedplug.tff.runtime import use_runtime

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


def test_a_plugins_budget_steers_what_clients_send_on_both_runtimes(plugin, model_fn, sgd, dataset):
    encoder, datasets = f"halving('topk(0.5)', {LIMIT})", [dataset(seed) for seed in range(2)]
    found = []
    for runtime in ("inprocess", "native"):
        with use_runtime(runtime):
            process = fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=encoder, min_size=8)
            found.append(rounds(process, datasets, 4))
    rate = 1.0
    for inprocess, native in zip(*found, strict=True):
        assert inprocess == native
        assert float(inprocess["rate"]) == rate
        assert inprocess["entries"] > 0
        rate = rate / 2 if inprocess["uplink_bytes"] > len(datasets) * LIMIT else rate + STEP
    sent = [int(metrics["uplink_bytes"]) for metrics in found[0]]
    assert sent[0] > len(datasets) * LIMIT > min(sent)
