"""The hook for DDP, in real processes over gloo."""

from __future__ import annotations

import pickle

import ddp_jobs
import digits
import fedplug_torch
import numpy as np
import pytest
import torch
from digits import assert_same
from ranks import Ranks
from safetensors.torch import load, save

from fedplug.errors import ArgumentError, StateError


def assert_equal_ranks(results):
    for other in results[1:]:
        assert_same(results[0]["parameters"], other["parameters"])


def add_up(states, prefix, like):
    """Returns the sums over ranks of the residuals of each parameter, which may be divided by rows."""
    sums = {name: np.zeros_like(array) for name, array in like.items()}
    for state in states:
        for key, residual in state.items():
            if key.startswith(prefix):
                name, _, rows = key.removeprefix(prefix).removesuffix("/residual").partition("[")
                begin, _, end = rows.removesuffix("]").partition(":")
                sums[name][slice(int(begin or 0), int(end) if end else None)] += residual
    return sums


# Averages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_identity_gives_the_mean_in_the_order_of_ranks_bit_for_bit(ranks, dtype):
    results = ranks.run(ddp_jobs.mean_and_its_parts, dtype)
    for name in results[0][0]:
        total = np.zeros_like(results[0][0][name])
        for own, _ in results:
            total += own[name]
        mean = torch.from_numpy(total / len(results)).to(dtype).to(torch.from_numpy(total).dtype)
        for _, averaged in results:
            np.testing.assert_array_equal(averaged[name], mean, err_msg=name)


def test_residuals_are_the_parts_that_were_not_sent(ranks):
    results = ranks.run(ddp_jobs.residuals_and_gradients)
    states = [state for _, _, state in results]
    mean = results[0][1]
    waiting, waiting_means = (add_up(states, prefix, mean) for prefix in ("codec/", "mean/"))
    assert any(array.any() for array in waiting_means.values()) == (len(results) > 2)
    for name in mean:
        own = sum(own[name] for own, _, _ in results)
        found = len(results) * (mean[name] + waiting_means[name]) + waiting[name]
        np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "encoder",
    [
        "topk(0.05, scope='model') | qsgd(8)",
        "sign",
        {"*.bias": "identity", "0.*": "qsgd(8)", "*": "topk(0.05)"},
        "budget('topk(0.05)', bytes_per_client=3000)",
    ],
    ids=str,
)
def test_every_kind_of_encoder_gives_all_ranks_the_same_parameters(ranks, encoder):
    results = ranks.run(digits.train, encoder, 8)
    assert_equal_ranks(results)
    assert not np.array_equal(
        results[0]["parameters"]["0.weight"], digits.parameters(digits.network())["0.weight"]
    )


def test_a_budget_holds_for_each_half(start):
    ranks, steps, budget = 4, 8, 3000
    results = start(ranks).run(digits.train, f"budget('topk(0.05)', bytes_per_client={budget})", steps)
    sent = sum(result["bytes"] for result in results) / ranks / steps
    assert 0.7 < sent / (2 * budget * (ranks - 1) / ranks) < 1.3


@pytest.mark.parametrize("encoder", ["identity", "topk(0.1)"])
def test_parameters_of_any_layout_are_averaged_in_their_own_shape(two_ranks, encoder):
    for first, second in zip(*two_ranks.run(ddp_jobs.gradients_of_strange_parameters, encoder), strict=True):
        for own, given, _ in (first, second):
            for name, gradient in own.items():
                real = np.stack([gradient.real, gradient.imag], -1) if np.iscomplexobj(gradient) else gradient
                np.testing.assert_array_equal(given[name], real, err_msg=name)
        assert_same(first[2], second[2])
        if encoder == "identity":
            for name, mean in first[2].items():
                np.testing.assert_array_equal(mean, (first[0][name] + second[0][name]) / 2, err_msg=name)


# Buckets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"bucket_cap_mb": 25}, {"gradient_as_bucket_view": True}], ids=str)
def test_the_division_into_buckets_changes_no_bit(ranks, other):
    several = ranks.run(digits.train, "topk(0.05)", 6)
    one = ranks.run(digits.train, "topk(0.05)", 6, ddp_arguments=other)
    assert_same(several[0]["parameters"], one[0]["parameters"])


def test_a_parameter_that_no_rank_used_keeps_its_residuals(ranks):
    results = ranks.run(ddp_jobs.use_heads, [["left"] * 4, ["right"] * 4])
    kept = {name.partition("/")[0] for (_, before), _ in results for name in before if "/left.w" in name}
    assert kept == ({"codec"} if len(results) == 2 else {"codec", "mean"})
    for (_, before), (gradients, after) in results:
        assert gradients["left.weight"] is None
        for name in before:
            if "/left.weight" in name:
                assert before[name].any()
                np.testing.assert_array_equal(after[name], before[name])


def test_a_rank_that_did_not_use_a_parameter_gets_the_mean_of_those_that_did(ranks):
    results = ranks.run(ddp_jobs.use_heads, [["left", "right", "right", "right"]])
    (left, mine), (right, theirs) = results[0][0], results[1][0]
    assert left["left.weight"].any()
    np.testing.assert_array_equal(left["left.weight"], right["left.weight"])
    for residuals, was_used in ((mine, True), (theirs, False)):
        own = [array for name, array in residuals.items() if name.startswith("codec/left.weight")]
        assert [array.any() for array in own] == [was_used] * len(own) != []


def test_layers_may_be_frozen_and_unfrozen(two_ranks):
    for first, *others in two_ranks.run(ddp_jobs.unfreeze_a_layer):
        assert first == {"codec/2.weight/residual", "codec/4.weight/residual"}
        assert others == [{"codec/0.weight/residual", "codec/2.weight/residual"}] * 2


def test_layers_may_be_made_after_the_state(two_ranks):
    assert two_ranks.run(ddp_jobs.make_a_layer_late) == [1, 1]


# Restarts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["topk(0.05) | qsgd(4)", "budget('topk(0.05)', bytes_per_client=3000)"])
def test_a_restarted_job_continues_with_the_same_bits(ranks, encoder):
    whole = ranks.run(digits.train, encoder, 10, warmup_steps=2)
    half = ranks.run(digits.train, encoder, 5, warmup_steps=2)
    saved = [{key: load(save(tensors)) for key, tensors in result["saved"].items()} for result in half]
    resumed = ranks.run(digits.train, encoder, 10, begin=5, saved=saved, warmup_steps=2)
    for one, other in zip(whole, resumed, strict=True):
        assert_same(one["parameters"], other["parameters"])
        assert_same(one["saved"]["state"], other["saved"]["state"])


# Warm-up and bytes -----------------------------------------------------------------------------------------


def test_the_warm_up_is_plain_ddp(ranks):
    plain = ranks.run(digits.train, None, 4)
    warm = ranks.run(digits.train, "topk(0.01)", 4, warmup_steps=4)
    assert_same(plain[0]["parameters"], warm[0]["parameters"])
    assert (warm[0]["bytes"], warm[0]["dense bytes"]) == (0, 0)


def test_all_bytes_are_counted(ranks):
    results = ranks.run(ddp_jobs.count_bytes, 3)
    count = len(results)
    dense = 3 * 4 * sum(p.numel() for p in digits.network().parameters())
    for counted, sent, of_dense in results:
        assert counted == sent
        assert of_dense == 2 * (count - 1) * dense // count


# Errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "of_mean", "damage", "words"),
    [
        (2, False, ddp_jobs.cut_short, "rank 1, tensor '0.weight"),
        (2, False, ddp_jobs.blown_up, "rank 1, parameter '0.weight': it announces a payload of 100"),
        (2, False, None, "rank 1 could not encode: NonFiniteError: array '"),
        (
            2,
            False,
            ddp_jobs.out_of_memory,
            "rank 1 could not average gradients: OutOfMemoryError: no memory",
        ),
        (
            4,
            False,
            ddp_jobs.cut_short,
            "rank 0 could not encode: PayloadError: rank 1, tensor '0.",
        ),
        (4, False, ddp_jobs.blown_up, "rank 1, parameter '0.weight[0:"),
        (4, False, None, "rank 1 could not encode: NonFiniteError: array '"),
        (4, True, ddp_jobs.cut_short, "rank 1, tensor '"),
        (4, True, ddp_jobs.blown_up, "it announces a payload of 100"),
        (
            4,
            True,
            ddp_jobs.out_of_memory,
            "rank 1 could not average gradients: OutOfMemoryError: no memory",
        ),
    ],
)
def test_an_error_of_one_rank_is_one_of_all_and_the_step_can_be_skipped(start, count, of_mean, damage, words):
    bad_step = 3
    expected = start(count).run(ddp_jobs.train_without_step, 6, bad_step)
    results = start(count).run(ddp_jobs.train_through_an_error, damage, 6, bad_step, of_mean)
    for (errors, parameters, steps, residuals), (others, other_residuals) in zip(
        results, expected, strict=True
    ):
        ((step, text, found),) = errors
        assert step == bad_step
        assert found in ("PayloadError", "RankError")
        assert words in text
        assert steps == 5
        assert_same(parameters, others)
        assert_same(residuals, other_residuals)


def test_what_a_rank_announces_is_bounded(two_ranks):
    assert two_ranks.run(ddp_jobs.announce, 2**62, 4) == [None, None]  # no size: the payload has 4 bytes
    for size in (101, -1, 2**62):
        for error in two_ranks.run(ddp_jobs.announce, 0, size):
            assert f"rank 1, parameter 'w': it announces a payload of {size} bytes; at most 100" in error
    for error in two_ranks.run(ddp_jobs.announce, -4, 0):
        assert error == "RankError: rank 1 text"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("warmup_steps", [0, 2, 0], "'the rest of the warm-up' is 0 steps on rank 0 and rank 2, 2 steps on"),
        ("encoder", ["topk(0.1)", {"missing": "topk(0.1)"}, "topk(0.1)"], "rule for 'missing' matches no"),
        ("encoder", ["topk(0.1)", {"missing": "topk(0.1)"}], "rule for 'missing' matches no"),
    ],
)
def test_arguments_of_one_rank_leave_no_rank_waiting(start, name, values, words):
    for error in start(len(values)).run(ddp_jobs.error_of_other_arguments, name, values):
        assert words in error


def test_a_rank_that_dies_does_not_leave_the_others_waiting():
    three = Ranks(3)
    died = three.run(ddp_jobs.die_in_the_second_step)
    three.close()
    assert died[1] is None
    assert all("gloo" in error.lower() or "closed" in error for error in (died[0], died[2]))


def test_a_state_for_another_module_is_an_error(two_ranks):
    for error in two_ranks.run(ddp_jobs.hook_of_another_module):
        assert "the module of FedplugState has not" in error


def test_sparse_gradients_are_refused(two_ranks):
    for error in two_ranks.run(ddp_jobs.sparse_gradients):
        assert "gradient of 'weight' is sparse" in error


def test_a_state_may_be_older_than_the_process_group(two_ranks):
    state = fedplug_torch.FedplugState("topk(0.05)", digits.network())
    with pytest.raises(ArgumentError, match="init_process_group"):
        state.state_dict()  # the rank is unknown
    saved = two_ranks.run(digits.train, "topk(0.05)", 2)[1]["saved"]["state"]
    state.load_state_dict(saved)
    assert_same(state.state_dict(), saved)
    assert_same(pickle.loads(pickle.dumps(state)).state_dict(), saved)


@pytest.mark.parametrize(
    "arguments", [{}, {"static_graph": True}, {"gradient_as_bucket_view": True}], ids=str
)
@pytest.mark.parametrize("bad_steps", [[1], [0, 2]], ids=["one step", "the first, and another"])
def test_training_continues_after_an_error_in_every_mode_of_ddp(two_ranks, arguments, bad_steps):
    arguments = {"find_unused_parameters": not arguments.get("static_graph"), **arguments}
    results = two_ranks.run(ddp_jobs.train_through_errors, bad_steps, **arguments)
    for failed, steps, _ in results:
        assert (failed, steps) == (bad_steps, 5 - len(bad_steps))
    assert_same(results[0][2], results[1][2])


def test_a_rank_that_left_early_takes_part_in_the_steps_of_the_others(two_ranks):
    assert two_ranks.run(ddp_jobs.leave_early, None) == [([], 4), ([], 4)]
    assert two_ranks.run(ddp_jobs.leave_early, 2) == [([], 3), ([2], 3)]


# Copies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["topk(0.1) | qsgd(4)", "budget('topk(0.05)', bytes_per_client=3000)"])
@pytest.mark.parametrize("copied", [ddp_jobs.deep_copied, ddp_jobs.pickled])
def test_a_copy_continues_with_the_same_bits(two_ranks, copied, encoder):
    for whole, resumed in two_ranks.run(ddp_jobs.train_a_copy, copied, encoder):
        assert_same(whole[0], resumed[0])
        assert_same(whole[1], resumed[1])


def test_the_copy_of_another_ranks_state_is_an_error_of_every_rank(two_ranks):
    for error in two_ranks.run(ddp_jobs.use_the_copy_of_another_rank):
        assert "rank 1 could not encode: StateError: the state is of rank 0 of 2, and this is rank 1" in error
        assert "rank 0 could not" not in error


def test_an_object_with_its_own_process_group_is_not_copied(two_ranks):
    for errors in two_ranks.run(ddp_jobs.copy_with_a_group_of_its_own):
        assert len(errors) == 2
        assert all("an object with a process group cannot be copied" in error for error in errors)


# Rejected arguments ----------------------------------------------------------------------------------------


def test_a_state_of_another_encoder_is_refused_and_nothing_changes(two_ranks):
    saved = two_ranks.run(digits.train, "topk(0.05)", 2)[0]["saved"]["state"]
    for encoder in ("topk(0.1)", "qsgd(4)", "sign"):
        state = fedplug_torch.FedplugState(encoder, digits.network())
        with pytest.raises(StateError, match=r"the state is of another codec: expected .*, found .*topk"):
            state.load_state_dict(saved)
        assert (state.step, state.bytes_sent, state.dense_bytes) == (0, 0, 0)
    state = fedplug_torch.FedplugState("topk(0.05)", digits.network())
    state.load_state_dict(saved)
    assert state.step == 2
    assert 0 < state.bytes_sent < state.dense_bytes
    without = {key: tensor for key, tensor in saved.items() if key != "rank 0/codec/codec"}
    with pytest.raises(StateError, match="has the key 'codec'"):
        state.load_state_dict(without)
    with pytest.raises(StateError, match="the state is damaged"):
        state.load_state_dict(saved | {"rank 0/step": torch.tensor(-5)})
    assert state.step == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"module": digits.network().state_dict()}, "is no module; pass the model that DDP wraps"),
        ({"warmup_steps": 1.5}, "warmup_steps is 1.5; it must be a whole number of at least 0"),
        ({"warmup_steps": -1}, "warmup_steps is -1; it must be a whole number of at least 0"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        fedplug_torch.FedplugState(**{"encoder": "topk(0.01)", "module": digits.network(), **arguments})


def test_the_hook_wants_its_state_and_the_buckets_of_ddp():
    with pytest.raises(ArgumentError, match=r"a str; register it as .*FedplugState"):
        fedplug_torch.fedplug_hook("topk(0.01)", None)
    state = fedplug_torch.FedplugState("topk(0.1)", digits.network(), warmup_steps=np.int64(3))
    with pytest.raises(ArgumentError, match="takes the buckets of DistributedDataParallel, not a Tensor"):
        fedplug_torch.fedplug_hook(state, torch.zeros(3))  # FSDP calls its hooks like this
