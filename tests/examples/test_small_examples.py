"""The claims of the small examples, each in the comment of its section."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest


# Weights by divergence beat plain averaging where some clients are noise, with a choice in every round.
@pytest.fixture(scope="module")
def adaptive(load_example):
    return load_example("adaptive_aggregation").compare(
        "topk(0.1)", rounds=24, seed=0, ways=("plain", "chosen, cold")
    )


@pytest.mark.slow
def test_the_choice_is_made_in_every_round_and_goes_both_ways(adaptive):
    assert not any(adaptive["plain"].adaptive)
    assert 3 < sum(adaptive["chosen, cold"].adaptive) < 21


@pytest.mark.slow
def test_chosen_by_the_loss_it_ends_above_plain_averaging(adaptive):
    plain, chosen = (np.mean(adaptive[name].accuracy[-10:]) for name in ("plain", "chosen, cold"))
    assert chosen > plain + 0.01


# Compressing the way down too saves most of its bytes and costs little accuracy; clients skip rounds.
@pytest.fixture(scope="module")
def broadcast(load_example):
    example = load_example("compressed_broadcast")
    return example.compare(rounds=40, clients=12, clients_per_round=4, seed=0)


@pytest.mark.slow
def test_the_accuracy_is_that_of_sending_the_model_uncompressed(broadcast):
    accuracy = {way: np.mean(result.accuracy[-5:]) for way, result in broadcast.items()}
    assert accuracy["sparse up"] > 0.8
    assert accuracy["sparse up, 5 bits down"] > accuracy["sparse up"] - 0.05


@pytest.mark.slow
def test_it_takes_a_fraction_of_the_bytes_though_clients_miss_rounds(broadcast):
    dense, eight, five = (broadcast[f"sparse up{way}"] for way in ("", ", 8 bits down", ", 5 bits down"))
    assert five.down < dense.down / 6
    assert eight.down < dense.down / 3.7
    assert five.up == pytest.approx(dense.up, rel=0.02)


@pytest.mark.slow
def test_the_model_of_the_clients_stays_close_to_that_of_the_server(broadcast):
    assert 0 < broadcast["sparse up, 5 bits down"].distance < 0.1


# Constraints hold at the end of a training, and a true one makes the result better.
@pytest.fixture(scope="module")
def constraints(load_example):
    return load_example("constraints")


@pytest.fixture(scope="module")
def kernels(constraints):
    return {name: result.kernel for name, result in constraints.compare(rounds=30, seed=0).items()}


@pytest.mark.slow
def test_the_weights_obey_their_constraint_and_would_not_without(kernels):
    assert kernels["free"].min() < 0
    assert kernels["non-negative"].min() == 0
    assert np.linalg.norm(kernels["free"], axis=0).max() > 1.001
    assert np.linalg.norm(kernels["max-norm 1"], axis=0).max() < 1.001


def test_knowing_that_weights_are_not_negative_brings_them_closer_to_the_true_ones(constraints, kernels):
    true = constraints.true_kernel(seed=0)
    errors = {name: np.linalg.norm(kernel - true) for name, kernel in kernels.items()}
    assert errors["non-negative"] < 0.9 * errors["free"]


# What each stack of aggregators is worth: precise, robust, or seen only as a sum, and with measurements.
NAMES = (
    "mean",
    "mean(fixed point(sum))",
    "mean(fixed point(secure sum))",
    "zeroing(clipping(mean(qsgd(8))))",
)


@pytest.fixture(scope="module")
def stacks(load_example):
    example = load_example("custom_aggregators")
    example.STACKS = {name: example.STACKS[name] for name in NAMES}
    return example


@pytest.fixture(scope="module")
def stack_results(stacks):
    return stacks.compare(rounds=14, clients=6, seed=0)


def test_numbers_of_eight_bits_are_enough_once_the_server_knows_their_range(stack_results):
    honest, _ = stack_results["mean(fixed point(sum))"]
    assert stack_results["mean"][0].error < 1e-6 < honest.error < 0.05
    measured = honest.measurements["mean_value"]["transform"]
    assert measured["clients"] == 6
    assert measured["range"] > 2


def test_a_secure_sum_changes_no_bit_of_the_result(stack_results):
    for plain, secure in zip(
        stack_results["mean(fixed point(sum))"], stack_results["mean(fixed point(secure sum))"], strict=True
    ):
        assert secure.error == plain.error


def test_clipping_and_zeroing_around_an_encoded_sum_hold_a_broken_client_off(stack_results):
    _, broken = stack_results["zeroing(clipping(mean(qsgd(8))))"]
    assert stack_results["mean"][1].error > 10
    assert broken.error < 1
    assert broken.measurements["zeroing"]["clipping"]["mean_value"]["payloads"] == 6


# Six of twenty clients attack: the mean fails, robust aggregators hold, on compressed updates.
@pytest.fixture(scope="module")
def accuracy(load_example):
    """Of the last round, by aggregator."""
    results = load_example("robust_aggregation").compare(
        rounds=12,
        seed=0,
        encoder="float16",
        aggregators=("mean", "median", "multi-Krum"),
        attacks=("flipped, times 4",),
    )
    return {name: by_attack["flipped, times 4"].accuracy[-1] for name, by_attack in results.items()}


@pytest.mark.slow
def test_under_attack_the_mean_learns_nothing(accuracy):
    assert accuracy["mean"] < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["median", "multi-Krum"])
def test_robust_aggregators_learn_all_the_same(accuracy, name):
    assert accuracy[name] > 0.6


# A residual on each client makes top-k find what it never finds without, at the same bytes.
@pytest.fixture(scope="module")
def topk(load_example):
    return load_example("stateful_topk").compare(rounds=30, clients=8, clients_per_round=4, seed=1)


def test_without_a_residual_a_small_common_change_is_never_learned(topk):
    assert topk["stateless top-k"].errors[-1] > 0.9


def test_with_a_residual_it_is_learned_though_clients_skip_rounds(topk):
    assert topk["dense"].errors[-1] < 0.2
    assert topk["stateful top-k"].errors[-1] < 0.4
    assert topk["stateful top-k"].clients_with_residual == 8


def test_a_stage_of_tfmot_runs_unchanged_and_learns_the_same(topk):
    assert topk["the same, by tfmot"].errors == pytest.approx(topk["stateful top-k"].errors, rel=1e-5)
    assert topk["the same, by tfmot"].clients_with_residual == 8


def test_the_residual_costs_no_bytes(topk):
    stateless, stateful = topk["stateless top-k"].bytes_sent, topk["stateful top-k"].bytes_sent
    assert stateful == pytest.approx(stateless, rel=0.05)
    assert stateful < topk["dense"].bytes_sent / 2


# Adding updates up as they arrive takes one accumulator, whatever their number.
SIZE = 2_000_000  # 8 MB an update
WAYS = (("in a process", 10), ("in a process", 60), ("decode, then add", 60))


@pytest.fixture(scope="module")
def peaks(load_example):
    """The peak memory after each way, one after the other in one fresh process, where it never falls."""
    program = (
        "import runpy, sys\n"
        "example = runpy.run_path(sys.argv[1])\n"
        f"for way, clients in {WAYS}:\n"
        f"    example['WAYS'][way](clients, {SIZE})\n"
        "    print(example['peak']())\n"
    )
    command = [sys.executable, "-c", program, load_example("streaming_sum").__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    return dict(zip(WAYS, map(float, done.stdout.split()), strict=True))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_clients_of_a_process(peaks):
    assert peaks["in a process", 60] < 1.1 * peaks["in a process", 10]


@pytest.mark.slow
def test_the_obvious_way_holds_them_all_so_the_measurement_would_show_it(peaks):
    assert peaks["decode, then add", 60] > 1.3 * peaks["in a process", 10]
