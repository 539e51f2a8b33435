"""Outer steps of local SGD and DiLoCo, in processes over gloo and of workers in one process."""

from __future__ import annotations

import copy

import digits
import fedplug_torch
import numpy as np
import outer_jobs
import pytest
import torch
from outer_jobs import INNER_STEPS, Worker
from safetensors.torch import load, save

from fedplug.errors import ArgumentError, NonFiniteError, PayloadError, StateError


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def one_round(workers):
    for worker in workers:
        for _ in range(INNER_STEPS):
            worker.train()
    messages = {f"worker {worker.number}": worker.outer.encode() for worker in workers}
    for worker in workers:
        worker.outer.apply(messages)


# What a step is --------------------------------------------------------------------------------------------


def test_it_is_the_outer_step_of_diloco():
    """Algorithm 1 of Douillard et al., written down with torch's own optimizer."""
    workers = [Worker(number, "identity") for number in range(3)]
    theirs = [Worker(number, "identity") for number in range(3)]
    shared = digits.network()
    nesterov = torch.optim.SGD(shared.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(3):
        one_round(workers)
        for worker in theirs:
            worker.model.load_state_dict(shared.state_dict())
            for _ in range(INNER_STEPS):
                worker.train()
        for p, *trained in zip(shared.parameters(), *(w.model.parameters() for w in theirs), strict=True):
            p.grad = sum(p.detach() - mine.detach() for mine in trained) / 3
        nesterov.step()
    for worker in workers:
        assert_same(digits.parameters(worker.model), digits.parameters(shared))


def test_with_sgd_it_is_the_mean_of_the_workers_as_in_local_sgd():
    workers = [Worker(number, "identity") for number in range(2)]
    for worker in workers:
        worker.outer.optimizer = torch.optim.SGD(worker.model.parameters(), lr=1)
    alone = copy.deepcopy([worker.model for worker in workers])
    alone_workers = [Worker(number, "identity") for number in range(2)]
    one_round(workers)
    for worker, model in zip(alone_workers, alone, strict=True):
        for _ in range(INNER_STEPS):
            worker.train()
        model.load_state_dict(worker.model.state_dict())
    for name, p in workers[0].model.named_parameters():
        mean = sum(dict(model.named_parameters())[name] for model in alone) / 2
        torch.testing.assert_close(p, mean, rtol=1e-4, atol=1e-6)


def test_any_optimizer_may_be_the_outer_one():
    workers = [Worker(number, "topk(0.1)") for number in range(2)]
    for worker in workers:
        worker.outer.optimizer = torch.optim.Adam(worker.model.parameters(), lr=0.01)
    before = digits.parameters(workers[0].model)
    one_round(workers)
    assert_same(digits.parameters(workers[0].model), digits.parameters(workers[1].model))
    assert not np.array_equal(before["0.weight"], digits.parameters(workers[0].model)["0.weight"])


def test_gradients_and_parameters_stay_the_callers():
    worker = Worker(0, "identity")
    places = [p.data_ptr() for p in worker.model.parameters()]
    worker.train()
    gradients = [p.grad for p in worker.model.parameters()]
    worker.outer.apply({"me": worker.outer.encode()})
    assert [p.data_ptr() for p in worker.model.parameters()] == places
    assert all(p.grad is grad for p, grad in zip(worker.model.parameters(), gradients, strict=True))


def test_parameters_that_are_not_trained_are_not_sent():
    model = digits.network()
    model[0].requires_grad_(False)
    outer = fedplug_torch.OuterStep(model, "identity", inner_steps=1)
    assert not any(name.startswith("0.") for name in outer.encode())


# Over torch.distributed ------------------------------------------------------------------------------------


def test_ranks_do_what_workers_in_one_process_do(ranks):
    results = ranks.run(outer_jobs.train, "topk(0.1) | qsgd(4)", 2 * INNER_STEPS)
    workers = [Worker(number, "topk(0.1) | qsgd(4)") for number in range(len(results))]
    for _ in range(2):
        one_round(workers)
    for worker, result in zip(workers, results, strict=True):
        assert result["exchanged"] == [INNER_STEPS, 2 * INNER_STEPS]
        assert result["bytes"] == worker.outer.bytes_sent > 0
        assert_same(result["parameters"], digits.parameters(worker.model))


def test_top_k_with_error_feedback_converges_with_a_tenth_of_the_bytes(ranks):
    dense = ranks.run(outer_jobs.train, "identity", 240)
    sparse = ranks.run(outer_jobs.train, "topk(0.05) | qsgd(4)", 240)
    assert sparse[0]["accuracy"] > dense[0]["accuracy"] - 0.03 > 0.85
    assert sparse[0]["bytes"] < dense[0]["bytes"] / 10


def test_a_restarted_job_goes_on_with_the_same_bits(ranks):
    steps, half = 4 * INNER_STEPS, 2 * INNER_STEPS + 1  # in the middle of the inner steps
    whole = ranks.run(outer_jobs.train, "topk(0.1) | qsgd(4)", steps)
    saved = [
        {**result["saved"], "outer": load(save(result["saved"]["outer"]))}
        for result in ranks.run(outer_jobs.train, "topk(0.1) | qsgd(4)", half)
    ]
    resumed = ranks.run(outer_jobs.train, "topk(0.1) | qsgd(4)", steps, begin=half, saved=saved)
    for one, other in zip(whole, resumed, strict=True):
        assert_same(one["parameters"], other["parameters"])
        assert_same(one["saved"]["outer"], other["saved"]["outer"])


def test_all_ranks_begin_with_the_parameters_of_the_first(ranks):
    for parameters in ranks.run(outer_jobs.begin_with_other_parameters):
        assert_same(parameters, digits.parameters(digits.network()))


def test_an_error_of_one_rank_is_one_of_all_and_the_step_can_be_tried_again(two_ranks):
    results = two_ranks.run(outer_jobs.train_through_a_bad_parameter)
    for error, unchanged, exchanged, _ in results:
        assert error.startswith("RankError: rank 1 could not encode: NonFiniteError: array '0.bias'")
        assert unchanged
        assert exchanged
    assert_same(results[0][-1], results[1][-1])


# Errors ----------------------------------------------------------------------------------------------------


def test_a_damaged_payload_changes_nothing_and_names_worker_and_parameter():
    workers = [Worker(number, "topk(0.1)") for number in range(2)]
    for worker in workers:
        worker.train()
    messages = {f"worker {worker.number}": worker.outer.encode() for worker in workers}
    damaged = {**messages["worker 1"], "2.weight": messages["worker 1"]["2.weight"][:-3]}
    before = digits.parameters(workers[0].model)
    with pytest.raises(PayloadError, match=r"worker 1, parameter '2\.weight'"):
        workers[0].outer.apply({**messages, "worker 1": damaged})
    assert_same(before, digits.parameters(workers[0].model))
    assert workers[0].outer.outer_step == 0
    for worker in workers:
        worker.outer.apply(messages)
    assert_same(digits.parameters(workers[0].model), digits.parameters(workers[1].model))


def test_encoding_again_gives_the_same_bytes():
    worker = Worker(0, "topk(0.1) | qsgd(4)")
    for _ in range(2):
        worker.train()
        worker.outer.apply({"me": worker.outer.encode()})
    worker.train()
    assert worker.outer.encode() == worker.outer.encode()


@pytest.mark.parametrize(
    ("messages", "words"),
    [({}, "no worker"), ({"a": {"0.weight": b""}}, r"payloads of a .*0\.bias")],
    ids=["none", "not all parameters"],
)
def test_what_is_no_message_is_refused(messages, words):
    with pytest.raises(ArgumentError, match=words):
        Worker(0, "identity").outer.apply(messages)


def test_a_parameter_that_is_not_finite_is_refused():
    worker = Worker(0, "topk(0.1)")
    worker.model[2].weight.data[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"2\.weight"):
        worker.outer.encode()


def test_a_state_of_another_model_is_refused():
    saved = Worker(0, "topk(0.1)").outer.state_dict()
    other = torch.nn.Linear(64, 48)
    with pytest.raises(StateError, match=r"anchor/0\.bias"):
        fedplug_torch.OuterStep(other, "topk(0.1)", inner_steps=1).load_state_dict(saved)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"inner_steps": 0}, "inner_steps is 0"),
        ({"inner_steps": 1, "optimizer": torch.optim.SGD([torch.zeros(1)], lr=1)}, "other parameters"),
    ],
    ids=["inner_steps", "optimizer"],
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        fedplug_torch.OuterStep(digits.network(), "identity", **arguments)


def test_step_needs_torch_distributed():
    with pytest.raises(ArgumentError, match="encode and apply"):
        Worker(0, "identity").outer.step()
