"""Outer steps in fragments, with a delay between sending and applying, and with workers that come and go."""

from __future__ import annotations

import copy
import itertools

import digits
import numpy as np
import outer_jobs
import pytest
import streaming_jobs
import torch
from digits import assert_same
from fedplug_torch import OuterStep
from fedplug_torch.rank_state import part_of, ranks_of
from outer_jobs import Worker
from safetensors.torch import load, save
from streaming_jobs import STREAMING

from fedplug.errors import ArgumentError, ConfigError, StateError


def shared_part(state):
    """Returns the values that all workers must share."""
    own = part_of(state, ranks_of(state)[0], "")
    return {name: tensor for name, tensor in own.items() if "/anchor/" in name or name == "outer_step"}


def train_in_one_process(workers, steps, inner_steps, fragments=1, fragment_sync_delay=0, **_):
    """Replaces `OuterStep.step` on ranks, with `encode` and `apply`."""
    interval = inner_steps // fragments
    messages = {}
    for step in range(1, steps + 1):
        for worker in workers:
            worker.train()
        if step % interval == (interval - fragment_sync_delay) % interval:
            messages = {f"rank {worker.number}": worker.outer.encode() for worker in workers}
        if step % interval == 0:
            for worker in workers:
                worker.outer.apply(messages, accepted=True)


# Steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fragments", "delay", "alpha"),
    [
        (["024"], 0, 0.0),  # algorithm 1 of Douillard et al.
        (["024"], 2, 0.0),
        (["02", "4"], 0, 0.25),
        (["4", "0", "2"], 1, 0.5),
        (["02", "4"], 2, 1.0),
    ],
)
def test_it_is_diloco_and_streaming_diloco(fragments, delay, alpha):
    """The reference has one optimizer of torch for each fragment of layers, as torchft has."""

    def members(model):
        return [[p for name, p in model.named_parameters() if name[0] in part] for part in fragments]

    workers = [Worker(number, "identity") for number in range(3)]
    for worker in workers:
        worker.outer = OuterStep(
            worker.model,
            "identity",
            inner_steps=4 * len(fragments),
            fragments=members(worker.model),
            fragment_sync_delay=delay,
            fragment_update_alpha=alpha,
        )
    train_in_one_process(workers, 6 * 4, 4 * len(fragments), len(fragments), delay)

    theirs, shared = [Worker(number, "identity") for number in range(3)], digits.network()
    outer = [torch.optim.SGD(part, lr=0.7, momentum=0.9, nesterov=True) for part in members(shared)]
    for turn in range(6):
        part = turn % len(fragments)
        of_workers = list(zip(*(members(worker.model)[part] for worker in theirs), strict=True))
        for worker in theirs:
            for _ in range(4 - delay):
                worker.train()
        for p, mine in zip(members(shared)[part], of_workers, strict=True):
            p.grad = sum(p.detach() - own.detach() for own in mine) / 3
        for worker in theirs:
            for _ in range(delay):
                worker.train()
        outer[part].step()
        for p, mine in zip(members(shared)[part], of_workers, strict=True):
            for own in mine:
                own.data = p.detach().lerp(own.detach(), alpha)
    for worker, other in zip(workers, theirs, strict=True):
        assert_same(digits.parameters(worker.model), digits.parameters(other.model))


@pytest.mark.parametrize("arguments", [{"inner_steps": 4}, STREAMING], ids=["DiLoCo", "streaming"])
def test_ranks_do_what_workers_in_one_process_do(ranks, arguments):
    results = ranks.run(streaming_jobs.train, "topk(0.1) | qsgd(4)", 16, **arguments)
    workers = [Worker(number, "topk(0.1) | qsgd(4)", **arguments) for number in range(len(results))]
    train_in_one_process(workers, 16, **arguments)
    for worker, result in zip(workers, results, strict=True):
        assert result["bytes"] == worker.outer.bytes_sent > 0
        assert_same(result["parameters"], digits.parameters(worker.model))


def test_fragments_have_about_equal_messages_and_together_send_the_same():
    model = torch.nn.Sequential(*(torch.nn.Linear(30 + 7 * i, 37 + 7 * i) for i in range(12)))
    whole = OuterStep(copy.deepcopy(model), "identity", inner_steps=4)
    outer = OuterStep(model, "identity", inner_steps=4, fragments=4)
    dense = sum(map(len, whole.encode().values()))
    sizes, names = [], []
    for _ in range(4):
        message = outer.encode()
        sizes.append(sum(map(len, message.values())))
        names += message
        outer.apply({"me": message})
    assert sum(sizes) == outer.bytes_sent == dense
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert max(sizes) < 1.05 * dense / 4


def test_schedules_and_seeds_see_how_often_a_fragment_was_exchanged():
    model = torch.nn.ParameterDict({name: torch.randn(1000) for name in "ab"})
    outer = OuterStep(model, "topk(exponential(0.4, 0.1, rounds=2))", inner_steps=2, fragments=2)
    sizes = []
    for _ in range(6):
        with torch.no_grad():
            for p in model.values():
                p += torch.randn(1000)
        (payload,) = (message := outer.encode()).values()
        sizes.append(len(payload))
        outer.apply({"me": message})
    assert [a > b + 100 for a, b in zip(sizes, sizes[2:], strict=False)] == [True] * 4
    assert all(abs(a - b) < 100 for a, b in zip(sizes[::2], sizes[1::2], strict=True))


def test_training_goes_on_during_the_delay(two_ranks, tmp_path):
    first, second = two_ranks.run(streaming_jobs.train_on_while_the_other_is_late, str(tmp_path))
    assert first[0] == second[0] == [False, False, False, True]
    assert_same(first[1], second[1])


def test_other_collectives_may_run_during_the_delay(two_ranks):
    arguments = {"inner_steps": 4, "fragment_sync_delay": 3}
    alone = two_ranks.run(streaming_jobs.train, "topk(0.1)", 12, **arguments)
    for rank, (parameters, sums) in enumerate(
        two_ranks.run(streaming_jobs.train_among_other_collectives, 12, **arguments)
    ):
        assert sums == [2 * step + 1 for step in range(1, 13)]
        assert_same(parameters, alone[rank]["parameters"])


def test_an_error_of_one_rank_is_one_of_all_after_the_delay_and_the_next_call_tries_again(two_ranks):
    results = two_ranks.run(streaming_jobs.train_through_a_bad_parameter)
    for errors, _ in results:
        assert "RankError: rank 1 could not encode: NonFiniteError: array '0.weight'" in errors[1]
        assert [errors[0], *errors[2:]] == [False, True, False, True, False, True]
    for one, other in itertools.pairwise(results):
        np.testing.assert_array_equal(one[1]["0.weight"], other[1]["0.weight"])


# Fragments -------------------------------------------------------------------------------------------------


def test_fragments_are_modules_or_parameters():
    model = digits.network()
    outer = OuterStep(
        model,
        "identity",
        inner_steps=2,
        fragments=[model[2:], [model[0].bias, model[0].weight]],
    )
    messages = []
    for _ in range(2):
        messages.append(outer.encode())
        outer.apply({"me": messages[-1]})
    assert [list(message) for message in messages] == [
        ["2.weight", "2.bias", "4.weight", "4.bias"],
        ["0.weight", "0.bias"],
    ]


@pytest.mark.parametrize(
    ("fragments", "words"),
    [
        (0, "fragments is 0"),
        (7, "from 1 to the number of parameters, 6"),
        ("2", "fragments is '2'"),
        (lambda m: [m[0], m[2]], r"'4\.weight' is in none"),
        (lambda m: [m[:3], m[2:]], r"'2\.weight' is in \[0, 1\]"),
        (lambda m: [m, m[1]], "fragment 1 has no parameter"),
        (lambda m: [m, "4"], "fragment 1 is a str"),
        (lambda m: [m, m[4].weight], "fragment 1 is a Parameter"),
        (lambda m: [m, ["4.weight"]], "fragment 1 has a str; pass .* parameters, not names"),
        (lambda m: [m, [[m[4].weight]]], "fragment 1 has a list"),
        (lambda m: [m, m[4].named_parameters()], "fragment 1 has a tuple"),
    ],
    ids=[
        *("0", "too many", "text", "none", "several", "empty", "a name"),
        *("a parameter", "names", "nested", "named parameters"),
    ],
)
def test_wrong_fragments_are_refused(fragments, words):
    model = digits.network()
    with pytest.raises(ArgumentError, match=words):
        OuterStep(
            model,
            "identity",
            inner_steps=420,
            fragments=fragments(model) if callable(fragments) else fragments,
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"inner_steps": 5}, "must be a multiple of 2"),
        ({"fragment_sync_delay": 3}, "a whole number from 0 to 2, because"),
        ({"fragment_sync_delay": -1}, "fragment_sync_delay is -1"),
        ({"fragment_update_alpha": 1.5}, "from 0 to 1"),
        ({"fragment_update_alpha": float("nan")}, "from 0 to 1"),
        ({"fragment_update_alpha": True}, "fragment_update_alpha is True"),
    ],
    ids=str,
)
def test_wrong_numbers_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        OuterStep(digits.network(), "identity", **{**STREAMING, **arguments})


def test_numbers_may_be_numpys():
    numbers = {"fragment_sync_delay": np.int64(1), "fragment_update_alpha": np.float32(0.5)}
    OuterStep(digits.network(), "identity", **{**STREAMING, **numbers})


def test_a_rule_may_match_in_one_fragment_only():
    rules = {"4.*": "identity", "*.weight": "topk(0.1)"}
    outer = OuterStep(digits.network(), rules, inner_steps=3, fragments=3)
    sent = {}
    for _ in range(3):
        sent |= (message := outer.encode())
        outer.apply({"me": message})
    whole = OuterStep(digits.network(), rules, inner_steps=1).encode()
    assert {name: len(payload) for name, payload in sent.items()} == {n: len(p) for n, p in whole.items()}
    with pytest.raises(ConfigError, match="matches no tensor of the model"):
        OuterStep(digits.network(), {"5.*": "identity"}, inner_steps=3, fragments=3)


def test_the_message_of_another_fragment_is_refused():
    ahead, behind = (Worker(number, "identity", inner_steps=2, fragments=2) for number in range(2))
    ahead.outer.apply({"ahead": ahead.outer.encode()})
    message = ahead.outer.encode()
    with pytest.raises(ArgumentError, match="payloads of ahead are not those of fragment 0 of this model"):
        behind.outer.apply({"ahead": message})


# Restarts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [None, outer_jobs.adam], ids=["the default", "Adam"])
def test_a_restarted_job_goes_on_with_the_same_bits_wherever_it_stopped(two_ranks, optimizer):
    arguments = {
        "inner_steps": 8,
        "fragments": 2,
        "fragment_sync_delay": 2,
        "fragment_update_alpha": 0.25,
        "make_optimizer": optimizer,
    }
    whole = two_ranks.run(streaming_jobs.train, "topk(0.1) | qsgd(4)", 21, **arguments)
    resumed = two_ranks.run(
        streaming_jobs.train, "topk(0.1) | qsgd(4)", 21, restart_at=(5, 6, 8, 10, 11, 15), **arguments
    )
    for one, other in zip(whole, resumed, strict=True):
        assert_same(one["parameters"], other["parameters"])
        assert_same(one["saved"]["outer"], other["saved"]["outer"])


@pytest.mark.parametrize(
    "encoder", ["topk(0.1) | qsgd(4)", "qsgd(8)", "identity", "budget('topk(0.1)', 900)"]
)
@pytest.mark.parametrize("accepted", [True, False])
def test_a_restart_between_encode_and_apply_keeps_the_message(encoder, accepted):
    results = []
    for restarts in (False, True):
        worker, other = (Worker(number, encoder, **STREAMING) for number in range(2))
        for _ in range(4):
            for each in (worker, other):
                each.train()
            message = worker.outer.encode()
            messages = {"other": other.outer.encode()} | ({"me": message} if accepted else {})
            worker.train()
            if restarts:
                saved = {**worker.save(), "outer": load(save(worker.outer.state_dict()))}
                steps = worker.steps
                worker = Worker(0, encoder, saved=saved, **STREAMING)
                worker.steps = steps
                assert worker.outer.message == message
            worker.outer.apply(messages)
            assert worker.outer.message is None
            other.outer.apply(messages)
        results.append(worker.outer.state_dict())
    assert_same(*results)


def test_damaged_states_change_nothing():
    worker = Worker(0, "topk(0.1)", **STREAMING)
    worker.train()
    worker.outer.encode()
    good = worker.outer.state_dict()
    worker = Worker(0, "topk(0.1)", **STREAMING)
    before = worker.outer.state_dict()
    message, residual = "fragment 0/message/0.weight", "fragment 0/sent/0.weight/residual"
    for damaged in (
        {key: tensor for key, tensor in good.items() if key != message},
        {**good, message: good[message].float()},
        {**good, residual: good[residual][1:].contiguous()},
        {**good, "fragment 2/anchor/0.bias": torch.zeros(48)},
    ):
        with pytest.raises(StateError, match="the state is not of an OuterStep of these parameters; look at"):
            worker.outer.load_state_dict(damaged)
        assert_same(worker.outer.state_dict(), before)
    with pytest.raises(StateError, match="look at fragment 0/anchor"):
        Worker(0, "topk(0.1)", inner_steps=6).outer.load_state_dict(good)


# Workers that come and go ----------------------------------------------------------------------------------


def one_round(workers, accepted=None):
    for worker in workers.values():
        worker.train()
        worker.train()
    messages = {name: worker.outer.encode() for name, worker in workers.items()}
    for worker in workers.values():
        worker.outer.apply(messages)


def test_workers_join_leave_and_return_with_their_residuals():
    arguments = {"inner_steps": 2, "fragments": 2}
    workers = {name: Worker(number, "topk(0.05)", **arguments) for number, name in enumerate("abc")}
    for _ in range(3):
        one_round(workers)
    away = workers.pop("c").save()
    workers["d"] = Worker(3, "topk(0.05)", **arguments)
    workers["d"].outer.join(workers["a"].outer.state_dict())
    for _ in range(3):
        one_round(workers)
    workers["c"] = Worker(2, "topk(0.05)", **arguments)
    workers["c"].outer.join(load(save(workers["d"].outer.state_dict())), own=away["outer"])
    kept = [key for key in away["outer"] if key.endswith("/residual")]
    assert kept
    assert_same(
        *({key: state[key] for key in kept} for state in (away["outer"], workers["c"].outer.state_dict()))
    )
    assert workers["c"].outer.bytes_sent == int(away["outer"]["bytes_sent"]) > 0
    for _ in range(2):
        one_round(workers)
    states = [shared_part(worker.outer.state_dict()) for worker in workers.values()]
    assert len(states) == 4
    assert states[0]["outer_step"] == 8
    for one, other in itertools.pairwise(states):
        assert_same(one, other)


def test_a_worker_that_joins_has_neither_residuals_nor_a_message():
    old = Worker(0, "topk(0.1)", **STREAMING)
    for _ in range(2):
        old.train()
        old.outer.apply({"old": old.outer.encode()})
    old.train()
    old.outer.encode()
    new = Worker(1, "topk(0.1)", **STREAMING)
    new.outer.join(old.outer.state_dict())
    state = new.outer.state_dict()
    assert not [key for key in state if "/message/" in key or "/sent/" in key]
    assert not any(tensor.any() for key, tensor in state.items() if key.endswith("/residual"))
    assert (new.outer.outer_step, new.outer.bytes_sent) == (2, 0)
    assert_same(shared_part(state), shared_part(old.outer.state_dict()))


def test_a_message_of_a_worker_that_was_away_counts_as_sent():
    worker, other = (Worker(number, "topk(0.1)", inner_steps=1) for number in range(2))
    worker.train()
    message = worker.outer.encode()
    away = worker.save()
    worker.outer.apply({"me": message})
    returned = Worker(0, "topk(0.1)", inner_steps=1)
    returned.outer.join(other.outer.state_dict(), own=away["outer"])
    residual = "fragment 0/codec/0.weight/residual"
    assert torch.equal(returned.outer.state_dict()[residual], worker.outer.state_dict()[residual])


@pytest.mark.parametrize("stop", [6, 8], ids=["between exchanges", "during a delay"])
def test_a_job_goes_on_with_more_and_with_fewer_ranks(start, stop):
    saved = [each["saved"] for each in start(2).run(streaming_jobs.train, "topk(0.1)", stop, **STREAMING)]
    more = start(4).run(streaming_jobs.go_on_with_another_number_of_ranks, saved, 4, **STREAMING)
    assert int(more[0]["outer"]["rank 0/outer_step"]) == (stop + 4) // 3
    for one, other in itertools.pairwise(more):
        assert_same(shared_part(one["outer"]), shared_part(other["outer"]))
    fewer = start(2).run(streaming_jobs.go_on_with_another_number_of_ranks, more[:2], 0, **STREAMING)
    for before, after in zip(more, fewer, strict=False):
        assert_same(before["outer"], after["outer"])


def test_states_of_different_steps_are_reported_on_every_rank(two_ranks):
    early = two_ranks.run(streaming_jobs.train, "topk(0.1)", 4, inner_steps=2)
    late = two_ranks.run(streaming_jobs.train, "topk(0.1)", 6, inner_steps=2)
    saved = [early[0]["saved"], late[1]["saved"]]
    for first, second, _ in two_ranks.run(streaming_jobs.load_states_of_different_steps, saved):
        assert first is None
        assert second.startswith("ArgumentError: the outer steps are not the same on all ranks: ")
        assert "'outer_step' is 2 on rank 0, 3 on rank 1" in second


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("inner_steps", (6, 12)),
        ("fragments", (2, 3)),
        ("fragment_sync_delay", (1, 0)),
        ("fragment_update_alpha", (0.5, 0.0)),
    ],
)
def test_arguments_that_differ_between_ranks_are_named_on_every_rank(two_ranks, name, values):
    others = {"inner_steps": 6, "fragment_sync_delay": 0}
    for error in two_ranks.run(streaming_jobs.with_an_argument_by_rank, name, *values, **others):
        expected = f"'the argument {name}' is {values[0]} on rank 0, {values[1]} on rank 1"
        if name == "fragments":
            expected = "in fragment 1 on rank 0, float32[10, 32] in fragment 2 on rank 1"
        assert expected in error
