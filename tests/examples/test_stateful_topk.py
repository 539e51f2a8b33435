"""A residual on each client makes top-k find what it never finds without, at the same bytes."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def results(load_example):
    return load_example("stateful_topk").compare(rounds=30, clients=8, clients_per_round=4, seed=1)


def test_without_a_residual_a_small_common_change_is_never_learned(results) -> None:
    assert results["stateless top-k"].errors[-1] > 0.9


def test_with_a_residual_it_is_learned_though_clients_skip_rounds(results) -> None:
    assert results["dense"].errors[-1] < 0.2
    assert results["stateful top-k"].errors[-1] < 0.4
    assert results["stateful top-k"].clients_with_residual == 8


def test_a_stage_of_tfmot_runs_unchanged_and_learns_the_same(results) -> None:
    assert results["the same, by tfmot"].errors == pytest.approx(results["stateful top-k"].errors, rel=1e-5)
    assert results["the same, by tfmot"].clients_with_residual == 8


def test_the_residual_costs_no_bytes(results) -> None:
    stateless, stateful = results["stateless top-k"].bytes_sent, results["stateful top-k"].bytes_sent
    assert stateful == pytest.approx(stateless, rel=0.05)
    assert stateful < results["dense"].bytes_sent / 2
