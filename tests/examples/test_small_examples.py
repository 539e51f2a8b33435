"""The claims of the small examples, each in the comment above its test."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

slow = pytest.mark.slow


# Weights by divergence beat plain averaging where some clients are noise, with a choice in every round that
# goes both ways.
@slow
def test_weights_chosen_by_the_loss_end_above_plain_averaging(load_example):
    example = load_example("adaptive_aggregation")
    results = example.compare("topk(0.1)", rounds=24, seed=0, ways=("plain", "chosen, cold"))
    assert not any(results["plain"].adaptive)
    assert 3 < sum(results["chosen, cold"].adaptive) < 21
    plain, chosen = (np.mean(results[name].accuracy[-10:]) for name in ("plain", "chosen, cold"))
    assert chosen > plain + 0.01


# Compressing the way down too saves most of its bytes and costs little accuracy; clients skip rounds.
@slow
def test_a_compressed_broadcast_takes_a_fraction_of_the_bytes_and_keeps_the_accuracy(load_example):
    example = load_example("compressed_broadcast")
    results = example.compare(rounds=40, clients=12, clients_per_round=4, seed=0)
    accuracy = {way: np.mean(result.accuracy[-5:]) for way, result in results.items()}
    assert accuracy["sparse up"] > 0.8
    assert accuracy["sparse up, 5 bits down"] > accuracy["sparse up"] - 0.05
    dense, eight, five = (results[f"sparse up{way}"] for way in ("", ", 8 bits down", ", 5 bits down"))
    assert five.down < dense.down / 6
    assert eight.down < dense.down / 3.7
    assert five.up == pytest.approx(dense.up, rel=0.02)
    assert 0 < five.distance < 0.1


# Constraints hold at the end of a training, and a true one makes the result better.
@slow
def test_the_weights_obey_their_constraint_and_a_true_one_brings_them_closer(load_example):
    example = load_example("constraints")
    kernels = {name: result.kernel for name, result in example.compare(rounds=30, seed=0).items()}
    assert kernels["free"].min() < 0
    assert kernels["non-negative"].min() == 0
    assert np.linalg.norm(kernels["free"], axis=0).max() > 1.001
    assert np.linalg.norm(kernels["max-norm 1"], axis=0).max() < 1.001
    true = example.true_kernel(seed=0)
    errors = {name: np.linalg.norm(kernel - true) for name, kernel in kernels.items()}
    assert errors["non-negative"] < 0.9 * errors["free"]


# What each stack of aggregators is worth: precise, robust, or seen only as a sum, and with measurements.
STACKS = (
    "mean",
    "mean(fixed point(sum))",
    "mean(fixed point(secure sum))",
    "zeroing(clipping(mean(qsgd(8))))",
)


@slow
def test_stacks_of_aggregators_are_precise_robust_or_seen_only_as_a_sum(load_example):
    example = load_example("custom_aggregators")
    example.STACKS = {name: example.STACKS[name] for name in STACKS}
    results = example.compare(rounds=14, clients=6, seed=0)
    mean, plain, secure, clipped = results.values()
    assert mean[0].error < 1e-6 < plain[0].error < 0.05  # 8 bits, once the server knows the range
    measured = plain[0].measurements["mean_value"]["transform"]
    assert measured["clients"] == 6
    assert measured["range"] > 2
    assert [each.error for each in secure] == [each.error for each in plain]
    assert mean[1].error > 10
    assert clipped[1].error < 1
    assert clipped[1].measurements["zeroing"]["clipping"]["mean_value"]["payloads"] == 6


# Six of twenty clients attack: the mean fails, robust aggregators hold, on compressed updates.
@slow
def test_under_attack_the_mean_learns_nothing_and_robust_aggregators_learn_all_the_same(load_example):
    attack = "flipped, times 4"
    results = load_example("robust_aggregation").compare(
        rounds=12, seed=0, encoder="float16", aggregators=("mean", "median", "multi-Krum"), attacks=(attack,)
    )
    accuracy = {name: by_attack[attack].accuracy[-1] for name, by_attack in results.items()}
    assert accuracy["mean"] < 0.3
    assert min(accuracy["median"], accuracy["multi-Krum"]) > 0.6


# A residual on each client makes top-k find what it never finds without, at the same bytes.
def test_with_a_residual_a_small_common_change_is_learned_though_clients_skip_rounds(load_example):
    example = load_example("stateful_topk")
    example.ENCODERS = {name: example.ENCODERS[name] for name in ("stateless top-k", "stateful top-k")}
    stateless, stateful = example.compare(rounds=30, clients=8, clients_per_round=4, seed=1).values()
    assert stateless.errors[-1] > 0.9
    assert stateful.errors[-1] < 0.4
    assert stateful.clients_with_residual == 8
    assert stateful.bytes_sent == pytest.approx(stateless.bytes_sent, rel=0.05)


# It learns like dense updates of many times its bytes, and like the stage of TensorFlow Model Optimization.
@slow
def test_a_residual_learns_like_dense_updates_and_like_the_same_stage_of_tfmot(load_example):
    results = load_example("stateful_topk").compare(rounds=30, clients=8, clients_per_round=4, seed=1)
    dense, _, stateful, by_tfmot = results.values()
    assert dense.errors[-1] < 0.2
    assert by_tfmot.errors == pytest.approx(stateful.errors, rel=1e-5)
    assert by_tfmot.clients_with_residual == 8
    assert stateful.bytes_sent < dense.bytes_sent / 2


# Adding updates up as they arrive takes one accumulator, whatever their number.
SIZE = 2_000_000  # 8 MB an update
WAYS = (("in a process", 10), ("in a process", 60), ("decode, then add", 60))


@slow
def test_memory_does_not_grow_with_the_clients_of_a_process_and_would_if_all_were_decoded(load_example):
    """Looks at the peak after each way, one after the other in one fresh process, where it never falls."""
    program = (
        "import runpy, sys\n"
        "example = runpy.run_path(sys.argv[1])\n"
        f"for way, clients in {WAYS}:\n"
        f"    example['WAYS'][way](clients, {SIZE})\n"
        "    print(example['peak']())\n"
    )
    command = [sys.executable, "-c", program, load_example("streaming_sum").__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    few, many, decoded = map(float, done.stdout.split())
    assert many < 1.1 * few
    assert decoded > 1.3 * few
