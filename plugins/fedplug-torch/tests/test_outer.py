"""Outer steps of local SGD and DiLoCo, in processes over gloo and of workers in one process."""

from __future__ import annotations

import copy
import pickle

import digits
import outer_jobs
import pytest
import torch
from digits import assert_same
from fedplug_torch import OuterStep
from outer_jobs import Worker
from safetensors.torch import load, save

from fedplug.errors import ArgumentError, NonFiniteError, PayloadError, StateError


def assert_equal_tensors(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


# Steps -----------------------------------------------------------------------------------------------------


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
    outer = OuterStep(model, "identity", inner_steps=1)
    assert not any(name.startswith("0.") for name in outer.encode())


# Over torch.distributed ------------------------------------------------------------------------------------


def test_all_ranks_begin_with_the_parameters_of_the_first(ranks):
    for parameters in ranks.run(outer_jobs.begin_with_other_parameters):
        assert_same(parameters, digits.parameters(digits.network()))


# Errors ----------------------------------------------------------------------------------------------------


def test_a_damaged_payload_changes_nothing_and_names_worker_and_parameter():
    workers = [Worker(number, "topk(0.1)") for number in range(2)]
    for worker in workers:
        worker.train()
    messages = {f"worker {worker.number}": worker.outer.encode() for worker in workers}
    before = digits.parameters(workers[0].model)
    for payload, error in (
        (messages["worker 1"]["2.weight"][:-3], PayloadError),
        (b"", PayloadError),
        (Worker(0, "qsgd(4)").outer.encode()["2.weight"], PayloadError),
        (None, ArgumentError),
    ):
        damaged = {**messages["worker 1"], "2.weight": payload}
        with pytest.raises(error, match=r"worker 1, tensor '2\.weight'"):
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
    [
        ({}, "no worker"),
        ([{}], "what workers sent is a mapping of messages by name, not a list"),
        ({"a": b"x"}, "the message of a is a mapping of payloads by name, not a bytes"),
        ({"a": {"0.weight": b""}}, r"payloads of a .*0\.bias"),
    ],
    ids=["none", "a list", "bytes", "not all parameters"],
)
def test_an_invalid_message_is_refused(messages, words):
    with pytest.raises(ArgumentError, match=words):
        Worker(0, "identity").outer.apply(messages)


def test_an_optimizer_of_other_parameters_is_refused():
    with pytest.raises(ArgumentError, match="other parameters"):
        OuterStep(
            digits.network(), "identity", inner_steps=1, optimizer=torch.optim.SGD([torch.zeros(1)], lr=1)
        )


def test_step_needs_torch_distributed():
    with pytest.raises(ArgumentError, match="encode and apply"):
        Worker(0, "identity").outer.step()


# States ----------------------------------------------------------------------------------------------------


class Counting(torch.optim.Optimizer):
    """An optimizer whose state holds every supported type: tensors, numbers, lists and strings."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.5, "betas": (0.9, 0.99), "name": "counting", "decay": None})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                kept = self.state[p]
                kept.setdefault("step", 0)
                kept.setdefault("history", [torch.zeros(p.shape), 0.0])
                kept["step"] += 1
                kept["history"][0] = group["betas"][0] * kept["history"][0] + p.grad.float() / kept["step"]
                kept["history"][1] += 0.1
                p.sub_((group["lr"] * kept["history"][0] / kept["history"][1]).to(p.dtype))


OPTIMIZERS = {
    "the default": None,
    "Adam": lambda ps: torch.optim.Adam(ps, lr=0.01, amsgrad=True),
    "a learning rate that is a tensor": lambda ps: torch.optim.SGD(ps, lr=torch.tensor(0.3), momentum=0.5),
    "two groups": lambda ps: torch.optim.NAdam([{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}]),
    "one of its own": Counting,
}


def strange_model(dtype):
    torch.manual_seed(0)
    model = torch.nn.Module()
    model.conv = torch.nn.Conv2d(3, 32, 3).to(memory_format=torch.channels_last)
    model.transposed = torch.nn.Parameter(torch.randn(40, 30).T)
    model.with_gaps = torch.nn.Parameter(torch.randn(30, 40)[:, ::2])
    model.frozen = torch.nn.Parameter(torch.randn(5), requires_grad=False)
    return model.to(dtype)


@pytest.mark.parametrize(
    ("dtype", "memory"),
    [(torch.float32, "device"), (torch.bfloat16, "bfloat16")],
    ids=["float32", "bfloat16"],
)
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@pytest.mark.parametrize("restart_at", [2, 2.5], ids=["between exchanges", "after training"])
def test_a_state_decides_the_next_steps_bit_for_bit(make, dtype, memory, restart_at):
    def made():
        model = strange_model(dtype)
        optimizer = make and make([p for p in model.parameters() if p.requires_grad])
        outer = OuterStep(model, "topk(0.1) | qsgd(4)", inner_steps=1, optimizer=optimizer, memory=memory)
        return model, outer

    def restored(model, outer):
        weights, saved = model.state_dict(), load(save(outer.state_dict()))
        model, outer = made()
        model.load_state_dict(weights)
        outer.load_state_dict(saved)
        assert_equal_tensors(outer.state_dict(), saved)
        return model, outer

    results = []
    for restarts in (False, True):
        model, outer = made()
        for step in range(5):
            if restarts and step == restart_at:
                model, outer = restored(model, outer)
            if step == 1:
                outer.optimizer.param_groups[0]["lr"] *= 0.5
            for place, p in enumerate(model.parameters()):
                p.data += torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + place))
            if restarts and step == int(restart_at) != restart_at:
                model, outer = restored(model, outer)
            outer.apply({"me": outer.encode()})
        results.append({name: value.float().numpy() for name, value in model.state_dict().items()})
    assert_same(*results)


def test_the_state_of_another_optimizer_is_refused_and_nothing_changes():
    model = digits.network()
    adam = OuterStep(
        model, "topk(0.1)", inner_steps=1, optimizer=torch.optim.Adam(model.parameters())
    ).state_dict()
    worker = Worker(0, "topk(0.1)")
    worker.train()
    before = worker.outer.state_dict()
    with pytest.raises(StateError, match=r"of the outer optimizer .*Adam"):
        worker.outer.load_state_dict(adam)
    with pytest.raises(StateError, match="the state is of another codec"):
        worker.outer.load_state_dict(Worker(0, "qsgd(4)").outer.state_dict())
    with pytest.raises(StateError, match="look at surplus"):
        worker.outer.load_state_dict({**before, "surplus": torch.zeros(3)})
    with pytest.raises(StateError, match=r"look at fragment 0/anchor/0\.bias"):
        worker.outer.load_state_dict(
            {**before, "fragment 0/anchor/0.bias": torch.zeros(48, dtype=torch.float64)}
        )
    with pytest.raises(StateError, match="'optimizer' of the state cannot be read"):
        worker.outer.load_state_dict({name: before[name] for name in before if name != "optimizer"})
    assert_same(before, worker.outer.state_dict())


def test_an_optimizer_that_keeps_something_else_cannot_be_saved():
    worker = Worker(0, "topk(0.1)")
    worker.outer.optimizer.param_groups[0]["schedule"] = object()
    with pytest.raises(ArgumentError, match=r"optimizer/.*/schedule: a object cannot be saved"):
        worker.outer.state_dict()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))])
def test_a_copy_continues_with_the_same_bits(copied):
    worker = Worker(0, "topk(0.1) | qsgd(4)")
    worker.train()
    worker.outer.apply({"me": worker.outer.encode()})
    other = copied(worker)
    for each in (worker, other):
        each.train()
        each.outer.apply({"me": each.outer.encode()})
    assert_same(digits.parameters(worker.model), digits.parameters(other.model))
    assert_same(worker.outer.state_dict(), other.outer.state_dict())


# Messages that are not applied -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "memory", "tolerance"),
    [
        ("topk(0.1)", "device", 1e-4),
        ("topk(0.1) | qsgd(4)", "device", 1e-4),
        ("sign", "device", 1e-4),
        ("identity", "device", 1e-4),
        ("topk(0.1)", "bfloat16", 5 * 2**-6),
    ],
)
def test_changes_that_were_not_applied_are_sent_later(encoder, memory, tolerance):
    """The sum of all changes equals the applied changes plus the kept ones."""
    model = torch.nn.ParameterDict({"large": torch.zeros(40, 50), "small": torch.zeros(7)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    outer = OuterStep(model, encoder, inner_steps=1, optimizer=optimizer, memory=memory)
    nothing = OuterStep(copy.deepcopy(model), "identity", inner_steps=1).encode()
    made = {name: torch.zeros_like(p) for name, p in model.items()}
    for step, is_applied in enumerate([True, False, False, True, False]):
        for place, (name, p) in enumerate(model.items()):
            change = torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + place))
            made[name] += change
            p.data += change
        message, before = outer.encode(), outer.bytes_sent
        outer.apply({"me": message} if is_applied else {"another": nothing})
        assert outer.bytes_sent == before + (sum(map(len, message.values())) if is_applied else 0)
    state = outer.state_dict()
    for name, p in model.items():
        kept = [value for key, value in state.items() if key.endswith((f"{name}/residual", f"{name}/unsent"))]
        kept += [state[key] for key in (f"fragment 0/unsent/{name}",) if key in state]
        torch.testing.assert_close(p.detach() - sum(kept), made[name], rtol=tolerance, atol=tolerance)


def test_a_worker_may_say_whether_its_message_was_applied():
    """Equal bytes of two workers need ``accepted``."""
    workers = [Worker(0, "topk(0.1)") for _ in range(2)]
    for worker in workers:
        worker.train()
        message = worker.outer.encode()
    for worker, accepted in zip(workers, (True, False), strict=True):
        worker.outer.apply({"one of them": message}, accepted=accepted)
    sent, kept = (worker.outer.state_dict()["fragment 0/codec/0.weight/residual"] for worker in workers)
    assert kept.norm() > sent.norm()
    assert [worker.outer.bytes_sent > 0 for worker in workers] == [True, False]
    with pytest.raises(ArgumentError, match="call encode first"):
        workers[0].outer.apply({"one of them": message}, accepted=True)


# Parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            outer_jobs.wider,
            ["'4.weight' is float32[10, 32] on rank 0, float32[12, 32] on rank 1", "'4.bias'"],
        ),
        (outer_jobs.deeper, ["'5.weight' is missing or frozen on rank 0, float32[10, 10] on rank 1"]),
        (outer_jobs.in_another_order, ["their order"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_parameters_that_differ_between_ranks_are_named_on_every_rank(two_ranks, change, words):
    for error, unchanged in two_ranks.run(outer_jobs.different_parameters, change):
        assert error.startswith("ArgumentError: ")
        assert all(word in error for word in words)
        assert unchanged


def test_an_error_of_one_rank_is_raised_on_every_rank(two_ranks):
    first, second = two_ranks.run(outer_jobs.different_parameters, outer_jobs.in_float8)
    assert first[0].startswith("RankError: ")
    assert second[0].startswith("ArgumentError: ")
    for error, unchanged in (first, second):
        assert "parameter '2.weight': a tensor of torch.float8_e4m3fn cannot be encoded" in error
        assert unchanged


@pytest.mark.parametrize("original_parameters", [False, True])
def test_fsdp_is_refused_with_a_remedy(two_ranks, original_parameters):
    for errors in two_ranks.run(outer_jobs.sharded_by_fsdp, original_parameters):
        assert len(errors) == 3
        assert all("is sharded by FullyShardedDataParallel; pass a model that is whole" in e for e in errors)


def test_dtensors_are_refused_with_what_to_pass_instead(two_ranks):
    for *of_outer_steps, of_ddp in two_ranks.run(outer_jobs.sharded_by_fully_shard):
        assert len(of_outer_steps) == 2
        assert all("'0.weight' is a DTensor" in e and "pass process_group=" in e for e in of_outer_steps)
        assert "'0.weight' is a DTensor" in of_ddp
        assert "use ReplicaHook" in of_ddp


def test_parameters_that_cannot_be_encoded_are_refused_at_once():
    with pytest.raises(ArgumentError, match=r"parameter 'x': .*meta device"):
        OuterStep({"x": torch.nn.Parameter(torch.zeros(9, device="meta"))}, "identity", inner_steps=1)
    with pytest.raises(ArgumentError, match=r"parameter 'weight': .*lazy"):
        OuterStep(torch.nn.LazyLinear(10), "identity", inner_steps=1)


def test_a_parameter_with_two_names_is_sent_once():
    model = torch.nn.ModuleDict({"one": torch.nn.Linear(20, 20), "other": torch.nn.Linear(20, 20)})
    model["other"].weight = model["one"].weight
    everything = model.named_parameters(remove_duplicate=False)
    outer = OuterStep(
        list(everything), "identity", inner_steps=1, optimizer=torch.optim.SGD(model.parameters(), lr=1)
    )
    with torch.no_grad():
        model["one"].weight.add_(1)
    expected = model["one"].weight.detach().clone()
    message = outer.encode()
    assert message.keys() == {"one.weight", "one.bias", "other.bias"}
    outer.apply({"me": message})
    torch.testing.assert_close(model["one"].weight, expected)


def unfreeze(model):
    model[0].requires_grad_(True)


def replace(model):
    model[2].weight = torch.nn.Parameter(torch.zeros(32, 48))


def grow(model):
    model.append(torch.nn.Linear(10, 10))


def change_dtype(model):
    model.double()


def change_shape(model):
    model[2].weight.data = torch.zeros(33, 48)


@pytest.mark.parametrize("change", [unfreeze, replace, grow, change_dtype, change_shape])
def test_a_model_that_has_changed_is_refused_before_anything_is_sent(change):
    model = digits.network()
    model[0].requires_grad_(False)
    outer = OuterStep(model, "topk(0.1)", inner_steps=1)
    change(model)
    with pytest.raises(ArgumentError, match=r"parameter '.*make another"):
        outer.encode()


# Models and states -----------------------------------------------------------------------------------------


class Masked(torch.nn.Module):
    """A bfloat16 network with a float32 norm and a constant that is not finite."""

    def __init__(self, constant):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Parameter(torch.randn(20, 9).bfloat16())
        self.norm = torch.nn.Parameter(torch.ones(99))
        self.mask = torch.nn.Parameter(torch.triu(torch.full((16, 16), constant), 1))


@pytest.mark.parametrize("constant", [float("inf"), float("-inf"), float("nan"), 0.0])
@pytest.mark.parametrize("encoder", ["auto", "topk(0.1)", "identity"])
@pytest.mark.parametrize("alpha", [0.0, 0.5], ids=["", "mixed"])
def test_constants_that_are_not_finite_have_not_changed_and_dtypes_may_differ(constant, encoder, alpha):
    model = Masked(constant)
    outer = OuterStep(model, encoder, inner_steps=1, fragment_update_alpha=alpha)
    mask = model.mask.detach().clone()
    for _ in range(3):
        with torch.no_grad():
            model.body += 1
            model.norm *= 1.5
        outer.apply({"me": outer.encode()})
        assert torch.allclose(model.mask, mask, equal_nan=True, atol=0, rtol=0)
        assert model.body.isfinite().all()
    assert outer.dense_bytes == 3 * (2 * 180 + 4 * 99 + 4 * 256)
    with torch.no_grad():
        model.norm[3] = float("nan")
    with pytest.raises(NonFiniteError, match="'norm'"):
        outer.encode()


def test_a_clear_error_refuses_wrong_models_and_numbers():
    for wrong in (digits.network().parameters(), "model", [torch.ones(3)]):
        with pytest.raises(ArgumentError, match=r"its named_parameters\(\) \(not its parameters"):
            OuterStep(wrong, "identity", inner_steps=1)
    for wrong in (0, 1.5, "2"):
        with pytest.raises(ArgumentError, match=r"inner_steps is .*; it must be a whole number, 1 or more"):
            OuterStep(digits.network(), "identity", inner_steps=wrong)
    OuterStep(digits.network(), "identity", inner_steps=torch.tensor(2))
