"""An outer step is taken as a whole or not at all, whatever raises an error."""

from __future__ import annotations

import outer_jobs
import pytest
import torch
from digits import assert_same
from fedplug_torch import OuterStep
from outer_jobs import FailingOnce

from fedplug.errors import ArgumentError


def made(make_optimizer, encoder="topk(0.2)"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Linear(8, 9))
    optimizer = make_optimizer(model.parameters())
    return model, OuterStep(model, encoder, inner_steps=1, optimizer=optimizer)


def train(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.data += torch.randn(p.shape, generator=generator)
        p.grad = torch.ones_like(p)


def observed(model, outer):
    """Returns everything that an error must leave as it is, and the gradient objects."""
    state = {name: tensor.clone() for name, tensor in outer.state_dict().items()}
    return state, [p.grad for p in model.parameters()]


def failing(when):
    return lambda parameters: FailingOnce(parameters, when=when)


def without_a_closure(parameters):
    return torch.optim.LBFGS(parameters)


def of_sparse_gradients(parameters):
    return torch.optim.SparseAdam(parameters)


def with_a_hook(parameters):
    optimizer = torch.optim.Adam(parameters)
    optimizer.register_step_post_hook(lambda *_: 1 / 0)
    return optimizer


@pytest.mark.parametrize("encoder", ["topk(0.2)", "identity"])
@pytest.mark.parametrize(
    "make", [failing("before"), failing("between"), without_a_closure, of_sparse_gradients, with_a_hook]
)
@pytest.mark.parametrize("sent", [True, False], ids=["sent", "lost"])
def test_an_error_of_the_optimizer_leaves_everything_as_it_was(make, encoder, sent):
    model, outer = made(make, encoder)
    train(model, 0)
    messages = {"me": outer.encode()}
    before, gradients = observed(model, outer)
    with pytest.raises((RuntimeError, TypeError, ZeroDivisionError)):
        outer.apply(messages, accepted=sent)
    after, same = observed(model, outer)
    assert_same(before, after)
    assert all(one is other for one, other in zip(gradients, same, strict=True))


@pytest.mark.parametrize("when", ["before", "between"])
def test_another_try_gives_the_bits_of_a_step_without_an_error(when):
    results = []
    for make in (failing(when), failing("never")):
        model, outer = made(make)
        for seed in range(3):
            train(model, seed)
            messages = {"me": outer.encode()}
            try:
                outer.apply(messages)
            except torch.OutOfMemoryError:
                outer.apply(messages)
        results.append(outer.state_dict())
    assert_same(*results)


def test_an_error_of_encode_keeps_the_message_before_it():
    model, outer = made(failing("never"))
    train(model, 0)
    message = outer.encode()
    good = model[0].weight.detach().clone()
    model[0].weight.data[0] = float("nan")
    with pytest.raises(ValueError, match=r"0\.weight"):
        outer.encode()
    assert outer.message == message
    model[0].weight.data.copy_(good)
    outer.apply({"me": message})
    assert outer.bytes_sent == sum(map(len, message.values()))


def test_gradients_of_another_dtype_stay():
    model = torch.nn.Linear(9, 8).bfloat16()
    if not hasattr(model.weight, "grad_dtype"):
        pytest.skip("this PyTorch has no grad_dtype")
    model.weight.grad_dtype = torch.float32
    model.weight.grad = gradient = torch.ones(8, 9)
    outer = OuterStep(model, "identity", inner_steps=1)
    outer.apply({"me": outer.encode()})
    assert model.weight.grad is gradient


def test_a_model_of_inference_mode_is_refused():
    with torch.inference_mode():
        model = torch.nn.Linear(9, 8)
    with pytest.raises(ArgumentError, match="'weight' was made in inference mode"):
        OuterStep(model, "identity", inner_steps=1)


@pytest.mark.parametrize("arguments", [{}, {"fragments": 2, "fragment_sync_delay": 1}], ids=str)
def test_an_error_of_one_rank_is_one_of_all_and_names_join(two_ranks, arguments):
    results = two_ranks.run(outer_jobs.train_through_an_error_of_the_optimizer, **arguments)
    for seen, _ in results:
        (error,) = [each for each in seen if isinstance(each, str)]
        assert error.startswith(
            "RankError: rank 1 could not take the outer step: OutOfMemoryError: no memory"
        )
        assert "join()" in error
        assert True in seen[seen.index(error) :]
    assert_same(results[0][1], results[1][1])
