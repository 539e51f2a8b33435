"""The plugin meets fedplug's expectations of every plugin, and each method is that of its paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fedplug_baselines.dgc import DGC
from fedplug_baselines.eden import Eden
from fedplug_baselines.powersgd import PowerSGD
from fedplug_baselines.terngrad import TernGrad
from fedplug_baselines.threshold import Threshold

from fedplug.encoders import Pipeline
from fedplug.ops.types import ArraySpec
from fedplug.testing import EncoderSuite, PluginPackageSuite

# TensorFlow takes 300 ops for a block of eden, so few tensors are tried with it.
FEW = {"shapes": ((0,), (1100,)), "dtypes": ("float32", "float64")}
SUITES = {
    "threshold": (Pipeline([Threshold(0.5)]), {"conservation_tolerance": 0.0, "shapes": ((), (0,), (70,))}),
    "dgc": (Pipeline([DGC(0.3)]), {"shapes": ((), (0,), (70,))}),
    "terngrad": (Pipeline([TernGrad()]), {"shapes": ((), (0,), (70,))}),
    "eden | rans": (Pipeline([Eden(3), "rans"]), FEW),
    "powersgd": (
        PowerSGD(1),
        {"shapes": ((), (0,), (3, 5), (2, 0, 3), (4, 5, 7)), "costly_checks_are_slow": False},
    ),
}


def suite(encoder, attributes):
    options = {"make_encoder": lambda self: encoder, "__module__": __name__, "costly_checks_are_slow": True}
    return type(f"Test {encoder!r}", (EncoderSuite,), {**options, **attributes})


globals().update({f"Test {name}": suite(*given) for name, given in SUITES.items()})


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-baselines"


def rounds(encoder, updates):
    """The decoded update of every round, and the last state."""
    spec = ArraySpec(updates[0].shape, updates[0].dtype)
    state, sent = encoder.init_state(spec), []
    for number, update in enumerate(updates):
        payload, state = encoder.encode(update, state, number)
        body = encoder.to_wire(payload, spec)
        sent.append(encoder.decode(encoder.from_wire(body, spec), spec))
    return sent, state


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_dgc_is_the_algorithm_of_the_paper(momentum):
    updates = np.random.default_rng(0).standard_normal((12, 40))
    sent, state = rounds(Pipeline([DGC(0.1, momentum=momentum)]), updates)
    u, v = np.zeros(40), np.zeros(40)
    for number, update in enumerate(updates):
        u = momentum * u + update
        v = v + u
        mask = np.isin(np.arange(40), np.argsort(-np.abs(v), kind="stable")[:4])
        np.testing.assert_allclose(sent[number], np.where(mask, v, 0), atol=1e-12)
        u, v = np.where(mask, 0, u), np.where(mask, 0, v)
    np.testing.assert_allclose(state["momentum"], u, atol=1e-12)
    np.testing.assert_allclose(state["residual"], v, atol=1e-12)


@pytest.mark.parametrize(
    ("bits", "error"), [(1, math.pi / 2 - 1), (2, 0.13312), (3, 0.035784), (4, 0.0095921)]
)
@pytest.mark.parametrize("draw", ["standard_normal", "lognormal"])
def test_the_error_of_eden_is_that_of_the_best_levels_for_normal_numbers(draw, bits, error):
    x = getattr(np.random.default_rng(0), draw)(size=2**16).astype(np.float32)
    (decoded,), _ = rounds(Pipeline([Eden(bits)]), [x])
    assert np.sum((x - decoded) ** 2) / np.sum(x**2) == pytest.approx(error, rel=0.04)


def test_the_errors_of_eden_average_out_over_the_rounds():
    x = np.random.default_rng(0).lognormal(size=4096).astype(np.float32)
    decoded, _ = rounds(Pipeline([Eden(2)]), [x] * 64)
    error = np.sum((x - np.mean(decoded, axis=0)) ** 2) / np.sum(x**2)
    assert error == pytest.approx(0.13312 / 64, rel=0.15)


def test_a_matrix_of_at_most_the_rank_of_powersgd_arrives_whole():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((50, 2)) @ rng.standard_normal((2, 40))).astype(np.float32)
    sent, state = rounds(PowerSGD(3), [np.zeros_like(x), x])
    np.testing.assert_array_equal(sent[0], 0)
    np.testing.assert_allclose(sent[1], x, atol=1e-4)
    np.testing.assert_allclose(state["residual"], 0, atol=1e-4)


def test_the_factors_of_powersgd_converge_to_the_best_ones():
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50))).astype(np.float32)
    x += 0.1 * rng.standard_normal(x.shape).astype(np.float32)
    u, s, v = np.linalg.svd(x)
    encoder, spec = PowerSGD(2), ArraySpec(x.shape, x.dtype)
    state = encoder.init_state(spec)
    for _ in range(3):  # a step of the power iteration each
        payload, state = encoder.encode(x, {**state, "residual": np.zeros_like(x)}, 0)
    error = np.linalg.norm(x - encoder.decode(payload, spec))
    assert error == pytest.approx(np.linalg.norm(x - (u[:, :2] * s[:2]) @ v[:2]), rel=1e-3)
