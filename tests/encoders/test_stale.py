"""Residuals of clients that missed rounds: against the encoder without the policy, and a loop by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug.errors import CapabilityError, ConfigError

INNER = ["topk(0.2)", "sign", "topk(0.2) | qsgd(8)", "dgc(0.2)", "stc(0.2)", "approx_topk(0.2)"]


def update(round_num):
    return np.random.default_rng(round_num).normal(size=50).astype(np.float32)


@pytest.mark.parametrize("inner", INNER)
def test_a_client_that_misses_no_round_has_the_bits_it_would_have_without(inner):
    plain, stale = fedplug.codec(inner), fedplug.codec(f"stale({inner!r}, decay=0.5, drop_after=3)")
    kept = faded = None
    for round_num in range(7, 12):
        want, kept = plain.encode(update(round_num), kept, round_num)
        got, faded = stale.encode(update(round_num), faded, round_num)
        assert got == want
    for key in kept.keys() - {"codec"}:
        np.testing.assert_array_equal(faded[key], kept[key])


@settings(max_examples=30, deadline=None)
@given(
    missed=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    decay=st.sampled_from([1.0, 0.9, 0.5]),
    drop_after=st.sampled_from([None, 0, 2]),
)
def test_what_is_left_follows_from_the_rounds_missed(missed, decay, drop_after):
    """The loop of an encoder without the policy, whose residual is multiplied by hand."""
    if decay == 1 and drop_after is None:
        return
    stale = fedplug.codec(f"stale('topk(0.2)', decay={decay}, drop_after={drop_after})")
    plain = fedplug.codec("topk(0.2)")
    state, residual, round_num = None, None, 4
    payload, state = stale.encode(update(4), state, 4)
    want, residual = plain.encode(update(4), residual, 4)
    for number in missed:
        round_num += number + 1
        share = np.float32(decay**number if drop_after is None or number <= drop_after else 0)
        left = {**residual, "residual": residual["residual"] * share}
        want, residual = plain.encode(update(round_num), left, round_num)
        payload, state = stale.encode(update(round_num), state, round_num)
        assert payload == want
        assert state["last_round"] == [round_num]


def test_momentum_becomes_old_as_what_is_unsent_does():
    dropping = fedplug.codec("stale('dgc(0.2)', drop_after=1)")
    _, state = dropping.encode(update(0), None, 0)
    got, _ = dropping.encode(update(3), state, 3)
    assert got == fedplug.codec("dgc(0.2)").encode(update(3), None, 3)[0]


def test_where_rounds_are_not_counted_none_are_missed():
    plain, stale = fedplug.codec("topk(0.2)"), fedplug.codec("stale('topk(0.2)', drop_after=0)")
    kept = faded = None
    for number in range(3):
        want, kept = plain.encode(update(number), kept)
        got, faded = stale.encode(update(number), faded)
        assert got == want


def test_a_budget_adjusts_what_it_is_around():
    expression = "budget(\"stale('topk(0.2)', decay=0.5)\", 400)"
    codec, state = fedplug.codec(expression), None
    x = {"kernel": np.random.default_rng(0).normal(size=2000).astype(np.float32)}
    for round_num in range(6):
        payloads, state = codec.encode_model(x, state, round_num)
    assert 380 <= len(payloads["kernel"]) <= 420


def test_its_residual_counts_in_metrics():
    names = {"kernel": update(0)}
    values = []
    for encoder in ("topk(0.2)", "stale('topk(0.2)', decay=0.5)"):
        metrics = fedplug.TensorMetrics()
        fedplug.codec(encoder, min_size=0).encode_model(names, metrics=metrics)
        values.append(metrics.value())
    assert values[0] == values[1]


@pytest.mark.parametrize(
    "expression", ["stale('qsgd(8)', decay=0.5)", "stale('topk(0.1, error_feedback=False)', decay=0.5)"]
)
def test_an_encoder_without_a_residual_is_refused(expression):
    with pytest.raises(CapabilityError, match="none that it could forget"):
        fedplug.encoder(expression)


def test_a_memory_that_the_server_has_too_must_not_be_forgotten():
    with pytest.raises(CapabilityError, match="a memory is the server's, too"):
        fedplug.encoder("stale('ef21(\"topk(0.1)\")', decay=0.5)")


@pytest.mark.parametrize("arguments", ["", ", decay=1", ", decay=0", ", decay=1.5", ", drop_after=-1"])
def test_arguments_that_are_no_policy_are_refused(arguments):
    with pytest.raises(ConfigError):
        fedplug.encoder(f"stale('topk(0.1)'{arguments})")
