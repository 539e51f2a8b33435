"""The hook between replicas of sharded models, in real processes over gloo."""

from __future__ import annotations

import digits
import fsdp_jobs
import numpy as np
import pytest
import torch
from digits import assert_same

# Averages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [2, 4], ids=["2 replicas", "4 replicas"])
def test_identity_gives_the_mean_over_all_ranks(four_ranks, replicas):
    results = four_ranks.run(fsdp_jobs.gradients_of_one_step, "identity", replicas)
    for name in results[0][0]:
        mean = sum(own[name].astype(np.float64) for own, _ in results) / 4
        for _, averaged in results:
            np.testing.assert_allclose(averaged[name], mean, rtol=1e-4, atol=1e-7, err_msg=name)
            np.testing.assert_array_equal(averaged[name], results[0][1][name], err_msg=name)


@pytest.mark.parametrize(
    "encoder",
    [
        "auto",
        "topk(0.05, scope='model') | qsgd(8)",
        "sign",
        {"*.bias": "identity", "2.*": "topk(0.05)"},
    ],
    ids=str,
)
def test_replicas_end_with_equal_bits(four_ranks, encoder):
    results = four_ranks.run(fsdp_jobs.train, encoder, 5)
    for result in results:
        assert_same(result["parameters"], results[0]["parameters"])
        assert result["step"] == 5
    start = digits.parameters(digits.network())
    assert not np.array_equal(results[0]["parameters"]["2.weight"], start["2.weight"])


def test_what_is_not_sent_is_the_residual(four_ranks):
    results = four_ranks.run(fsdp_jobs.sent_and_kept, "topk(0.1)", 3)
    _, sent, _, _ = results[0]
    for name in sent:
        own = sum(own[name] for own, _, _, _ in results) / 2  # FSDP divides by the ranks of a replica
        kept = sum({number: kept.get(name, 0) for _, _, kept, number in results}.values())
        np.testing.assert_allclose(2 * sent[name] + kept, own, rtol=1e-4, atol=1e-6, err_msg=name)


def test_accumulated_gradients_are_sent_once(four_ranks):
    results = four_ranks.run(fsdp_jobs.accumulate)
    expected = digits.network()
    for step in range(2):
        for rank in range(4):
            (digits.loss_of(expected, step, rank) / 4).backward()
    for gradients, steps in results:
        assert steps == 1
        for name, value in digits.gradients(expected).items():
            np.testing.assert_allclose(gradients[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_gradients_are_encoded_in_the_dtype_in_which_fsdp_reduces_them(four_ranks):
    results = four_ranks.run(fsdp_jobs.in_mixed_precision)
    for gradients, dtypes in results:
        assert dtypes == {"torch.float32"}
        assert_same(gradients, results[0][0])


def test_frozen_parameters_are_left_out(four_ranks):
    whole = four_ranks.run(fsdp_jobs.gradients_of_one_step, "identity")[0][1]
    for gradients in four_ranks.run(fsdp_jobs.frozen_layers):
        assert_same(gradients, {name: whole[name] for name in ("2.weight", "4.weight", "4.bias")})


def test_all_replicas_start_like_the_first(four_ranks):
    first, *others = four_ranks.run(fsdp_jobs.unequal_starts)
    for other in others:
        assert_same(first, other)


@pytest.mark.skipif(
    not hasattr(torch.distributed.fsdp.FSDPModule, "set_reduce_scatter_unused_params"),
    reason="this torch has no set_reduce_scatter_unused_params",
)
def test_unused_parameters_need_zeros_as_gradients(four_ranks):
    for error in four_ranks.run(fsdp_jobs.unused_parameters, False):
        assert "body.weight, body.bias, left.weight, left.bias, right.weight, right.bias have 630" in error
        assert "call set_reduce_scatter_unused_params(True)" in error
    for found in four_ranks.run(fsdp_jobs.unused_parameters, True):
        assert found["left.bias"] == 20
        assert found["right.bias"] == 0


# Checkpoints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "memory"),
    [("topk(0.05) | qsgd(4)", "device"), ("sign", "device"), ("topk(0.05)", "bfloat16")],
)
def test_a_checkpoint_goes_on_with_the_same_bits(four_ranks, tmp_path, encoder, memory):
    whole = four_ranks.run(fsdp_jobs.train, encoder, 6, memory=memory)
    four_ranks.run(fsdp_jobs.train, encoder, 3, memory=memory, folder=tmp_path, save=True)
    resumed = four_ranks.run(fsdp_jobs.train, encoder, 6, memory=memory, begin=3, folder=tmp_path)
    for one, other in zip(whole, resumed, strict=True):
        assert_same(one["parameters"], other["parameters"])
        assert_same(one["residuals"], other["residuals"])
        assert other["step"] == 6


def test_residuals_are_loaded_by_another_number_of_shards(start, tmp_path):
    saved = start(4).run(fsdp_jobs.train, "topk(0.05)", 3, folder=tmp_path, save=True)
    loaded = start(2).run(fsdp_jobs.train, "topk(0.05)", 3, begin=3, folder=tmp_path)
    assert [each["replica"] for each in saved] == [0, 0, 1, 1]
    for before, after in zip(saved[::2], loaded, strict=True):
        assert before["residuals"].keys() == {"0.weight", "2.weight", "4.weight"}
        assert_same(before["residuals"], after["residuals"])


def test_another_number_of_replicas_is_refused(four_ranks, tmp_path):
    four_ranks.run(fsdp_jobs.train, "topk(0.05)", 1, folder=tmp_path, save=True)
    for error in four_ranks.run(fsdp_jobs.load_with_another_number_of_replicas, "topk(0.05)", tmp_path):
        assert "Missing key in checkpoint state_dict: hook.replica" in error
        assert "of 4/" in error


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (fsdp_jobs.of_another_encoder, "the state is of another codec"),
        (
            fsdp_jobs.of_another_shape,
            "the state is not of a ReplicaHook of this model and mesh; look at replica",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_another_state_is_refused_and_nothing_changes(four_ranks, other, words):
    for error, before, after in four_ranks.run(fsdp_jobs.load_another_state, other):
        assert error.startswith(f"StateError: {words}")
        assert_same(before[0], after[0])
        assert before[1] == after[1] == 1


# Errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad_rank", [0, 3])
def test_an_error_of_one_rank_is_one_of_all_and_the_step_can_be_skipped(four_ranks, bad_rank):
    """The NaN of one rank reaches both shards of its replica, and no other rank may wait for them."""
    expected = four_ranks.run(fsdp_jobs.train_through_an_error, bad_rank, 2, 5, skip=True)
    results = four_ranks.run(fsdp_jobs.train_through_an_error, bad_rank, 2, 5)
    for (errors, parameters, residuals, steps), without in zip(results, expected, strict=True):
        ((step, text, kind),) = errors
        assert (step, kind, steps) == (2, "RankError", 4)
        assert f"rank {bad_rank} could not encode: NonFiniteError: array '2.weight'" in text
        assert_same(parameters, without[1])
        assert_same(residuals, without[2])


def test_a_damaged_payload_is_an_error_of_every_rank(four_ranks):
    for text, steps in four_ranks.run(fsdp_jobs.send_damaged_payloads, 1):
        assert "rank 1, tensor '2.weight': " in text
        assert steps == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (fsdp_jobs.by_native_hsdp, ["parameter '0.weight' is replicated", "mesh=mesh['shard'])"]),
        (fsdp_jobs.not_at_all, ["parameter '0.weight' is not sharded by fully_shard", "or freeze it"]),
        (fsdp_jobs.in_part, ["parameter '2.weight' is not sharded by fully_shard"]),
        (fsdp_jobs.by_fsdp_1, ["by FullyShardedDataParallel", "or shard it by fully_shard"]),
        (fsdp_jobs.by_another_parallelism, ["'0.weight' has the placements (Shard(dim=0), Shard(dim=1))"]),
        (
            fsdp_jobs.with_different_names,
            ["not the same on all ranks: '5.weight' is missing or frozen on rank"],
        ),
        (fsdp_jobs.on_the_meta_device, ["parameter 'weight': a tensor on the meta device"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_the_hook_cannot_average_is_refused_with_what_to_do(four_ranks, make, words):
    for error in four_ranks.run(fsdp_jobs.refused, make):
        assert error.startswith("ArgumentError: ")
        assert all(part in error for part in words)


def test_what_one_rank_refuses_every_rank_with_the_same_shards_hears_of(four_ranks):
    first, second, third, fourth = four_ranks.run(fsdp_jobs.refused, fsdp_jobs.not_on_the_last_rank)
    assert first is third is None
    assert second.startswith("RankError: rank 3 could not encode: ArgumentError: parameter '0.weight' is not")
    assert fourth.startswith("ArgumentError: parameter '0.weight' is not sharded")


def test_budgets_are_refused(four_ranks):
    budget = "budget('topk(0.05)', bytes_per_client=3000)"
    for error in four_ranks.run(fsdp_jobs.refused, fsdp_jobs.sharded, budget):
        assert error.startswith("CapabilityError")
        assert "use the encoder without a budget" in error
