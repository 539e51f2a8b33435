"""Tests that budgets are met on NumPy arrays, without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.encoders import ModelEncoder
from fedplug.ops.types import ArraySpec

SHAPES = {"dense/kernel": (200, 50), "dense/bias": (80,), "out/kernel": (50, 40)}
SPECS = [ArraySpec(shape, np.dtype("float32"), name) for name, shape in SHAPES.items()]
ROUNDS, CLIENTS = 6, 3


def served(text):
    """Yields the mean bytes of a payload, and the rate and metrics, of each round; clients keep state."""
    model = ModelEncoder(fedplug.encoder(text), SPECS)
    states = [model.init_state() for _ in range(CLIENTS)]
    control = model.rate_control.init()
    for number in range(ROUNDS):
        tensor_bytes, reports = np.zeros(len(SPECS), np.int64), []
        for client in range(CLIENTS):
            rng = np.random.default_rng([number, client])
            xs = [rng.standard_normal(shape, np.float32) for shape in SHAPES.values()]
            buffers, states[client] = model.encode(xs, states[client], number, control)
            tensor_bytes += [len(buffer) for buffer in buffers]
            reports.append(model.rate_control.report(xs, model.decode(buffers), states[client]))
        sums = {key: np.float32(sum(report[key] for report in reports)) for key in reports[0]}
        measured = {"tensor_bytes": tensor_bytes, "payloads": np.int32(CLIENTS), **sums}
        yield tensor_bytes.sum() / CLIENTS, model.rate_control.metrics(control, measured)
        control = model.rate_control.next(control, measured)
        assert control["rate"].dtype == np.float32


@pytest.mark.parametrize(
    "encoder",
    [
        "topk(0.001)",
        "topk(0.5, scope='model') | qsgd(8)",
        "qsgd(2)",
        "rules({'*/bias': 'identity', '*': 'topk(0.01)'})",
    ],
)
def test_the_mean_payload_is_within_two_percent_of_the_budget_after_four_rounds(encoder):
    found = [size for size, _ in served(f"budget({encoder!r}, 5000)")]
    assert abs(found[0] - 5000) > 500
    assert found[4:] == pytest.approx([5000] * (ROUNDS - 4), rel=0.02)


def test_the_error_approaches_its_target():
    found = [float(metrics["nmse"]) for _, metrics in served("budget('topk(0.01)', nmse=0.6)")]
    assert abs(found[0] - 0.6) > 0.2
    assert found[-1] == pytest.approx(0.6, abs=0.1)
