"""Tests that `ModelSum` gives the sums of `Sum` for a whole model, and adds all of a client or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug.errors import ArgumentError, ConfigError, NonFiniteError, PayloadError

SHAPES = {"kernel": (40, 9), "bias": (9,), "empty": (0, 3), "scale": ()}
CODECS = ["identity", "topk(0.1)", "topk(0.3, scope='model') | qsgd(4)", "sign", "qsgd(6) | rans"]


def update(seed):
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def payloads_of(seed, codec="topk(0.1)"):
    return fedplug.codec(codec, min_size=0).encode_model(update(seed))[0]


@given(st.lists(st.tuples(st.sampled_from(CODECS), st.sampled_from([1.0, 0.3, 7, 0.0])), max_size=4))
@settings(max_examples=60, deadline=None)
def test_it_is_a_sum_for_each_array(clients):
    total = fedplug.ModelSum(SHAPES)
    parts = {name: fedplug.Sum(shape) for name, shape in SHAPES.items()}
    for seed, (codec, weight) in enumerate(clients):
        payloads = payloads_of(seed, codec)
        total.add(payloads, weight)
        for name, part in parts.items():
            part.add(payloads[name], weight)
    value = total.value()
    assert list(value) == list(SHAPES)
    for name, part in parts.items():
        assert value[name].tobytes() == part.value().tobytes()
        assert value[name].shape == SHAPES[name]
    assert total.count == len(clients)
    assert total.weight == pytest.approx(sum(weight for _, weight in clients))


def test_the_mean_is_the_sum_divided_by_the_weights():
    total = fedplug.ModelSum(SHAPES)
    total.add(payloads_of(0), 3)
    total.add(payloads_of(1, "sign"), 5)
    for name, sum_ in total.value().items():
        mean = total.mean()[name]
        assert mean.tobytes() == (sum_ / np.float32(8)).tobytes()
        assert mean.dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_means_are_written_to_given_arrays(dtype):
    model = {
        "kernel": np.zeros((40, 9), dtype),
        "bn.running_var": np.ones(9, dtype),
        "steps": np.zeros(3, int),
    }
    total = fedplug.ModelSum.like(model)
    updates = {name: np.full_like(array, 7) for name, array in model.items()}
    total.add(fedplug.codec("identity").encode_model(updates)[0], 3)
    total.add(fedplug.codec("identity").encode_model(model)[0], 8)
    expected = total.mean()
    places = {name: np.full_like(array, 5) for name, array in expected.items() if name != "steps"}
    means = total.mean(out=places)
    assert all(means[name] is place for name, place in places.items())
    for name, array in expected.items():
        assert (means[name].dtype, means[name].tobytes()) == (array.dtype, array.tobytes())


def test_no_mean_is_written_if_one_of_the_given_arrays_does_not_fit():
    total = fedplug.ModelSum(SHAPES)
    total.add(payloads_of(0), 2)
    before = total.value()
    place = np.ones((40, 9), np.float32)
    for bad in (np.ones(9), np.ones(8, np.float32), [0] * 9):
        with pytest.raises(ArgumentError, match=r"^tensor 'bias': out is "):
            total.mean(out={"kernel": place, "bias": bad})
    with pytest.raises(ArgumentError, match=r"^tensor 'bias': out shares memory with the sum"):
        total.mean(out={"kernel": place, "bias": total.value(copy=False)["bias"]})
    assert (place == 1).all()
    assert all(array.tobytes() == before[name].tobytes() for name, array in total.value().items())


def test_nothing_has_no_mean():
    with pytest.raises(ArgumentError, match="no mean of 0 updates"):
        fedplug.ModelSum(SHAPES).mean()


def test_a_model_gives_shapes_and_dtypes():
    """Counters, as in batch normalization, and 16-bit floats are added exactly."""
    model = {
        "kernel": np.full((3, 70), 0.5, np.float16),
        "steps": np.array([2**31 + 1], np.int64),
        "double": np.ones(5),
        "mask": np.array([True, False]),
    }
    payloads, _ = fedplug.codec("identity").encode_model(model)
    total = fedplug.ModelSum.like(model)
    total.add(payloads)
    total.add(payloads, 2)
    value = total.value()
    assert {name: array.dtype.name for name, array in value.items()} == {
        "kernel": "float32",
        "steps": "float64",
        "double": "float64",
        "mask": "float64",
    }
    assert value["steps"] == 3 * (2**31 + 1)
    assert value["mask"].tolist() == [3, 0]
    assert total.mean()["kernel"].tolist() == model["kernel"].tolist()


def test_each_array_may_have_its_own_dtype():
    total = fedplug.ModelSum({"a": 3, "b": (2,)}, {"a": "float64", "b": "float16"})
    assert {name: array.dtype.name for name, array in total.value().items()} == {
        "a": "float64",
        "b": "float16",
    }
    with pytest.raises(ArgumentError, match=r"shapes are of .* dtypes of"):
        fedplug.ModelSum({"a": 3}, {"b": "float64"})


def changed(**payloads):
    return {**payloads_of(1, "qsgd(6) | rans"), **payloads}


def refused():
    good = payloads_of(1)
    other = fedplug.codec("topk(0.1)").encode(np.ones((9, 40), np.float32))[0]
    yield "cut", changed(scale=good["scale"][:-1]), {}, PayloadError, "tensor 'scale': "
    yield "of another shape", changed(kernel=other), {}, PayloadError, r"tensor 'kernel': .*\[9, 40\]"
    yield (
        "missing",
        {"kernel": good["kernel"]},
        {},
        PayloadError,
        r"no payload of \['bias', 'empty', 'scale'\]",
    )
    yield "unknown", changed(more=other), {}, PayloadError, r"\['more'\], which the model does not have"
    yield "no buffer", changed(bias=3), {}, ArgumentError, "tensor 'bias': a payload is bytes or a buffer"
    yield "a weight below 0", good, {"weight": -1}, ConfigError, "weight is .* of at least 0"
    large = fedplug.codec("identity").encode(np.full((9,), 3e38, np.float32))[0]
    yield "an infinite sum", changed(bias=large), {"weight": 10}, PayloadError, "tensor 'bias': .*infinite"


@pytest.mark.parametrize(
    ("payloads", "options", "error", "message"), [pytest.param(*rest, id=name) for name, *rest in refused()]
)
def test_a_refused_client_adds_nothing(payloads, options, error, message):
    total = fedplug.ModelSum(SHAPES)
    total.add(payloads_of(0, "sign"), 2)
    before = {name: array.tobytes() for name, array in total.value().items()}
    for refuse in (total.add, total.check):
        with pytest.raises(error, match=message):
            refuse(payloads, **options)
    assert {name: array.tobytes() for name, array in total.value().items()} == before
    assert (total.count, total.weight) == (1, 2)


@given(
    st.lists(st.tuples(st.floats(0, 2**100, width=32), st.floats(1e-3, 1e6)), min_size=1, max_size=9),
    st.floats(2**-100, 2**100, width=32),
)
@settings(max_examples=200, deadline=None)
def test_a_mean_of_variances_is_near_the_exact_one_and_not_negative(clients, before):
    """A float32 sum would be an ulp below zero for some of them."""
    before, codec = np.full(1, before, np.float32), fedplug.codec("topk(0.01)")
    total = fedplug.ModelSum.like({"bn.running_var": before})
    for trained, weight in clients:
        difference = np.array([trained], np.float32) - before
        total.add(codec.encode_model({"bn.running_var": difference})[0], weight)
    after = before + total.mean()["bn.running_var"]
    exact = np.average([trained for trained, _ in clients], weights=[weight for _, weight in clients])
    assert after.dtype == np.float32
    assert after >= 0
    assert abs(after - exact) <= 2**-22 * max(before, *(trained for trained, _ in clients))


def test_a_mean_of_variances_that_vanish_is_not_negative():
    before = np.random.default_rng(0).uniform(0.1, 10, 1000).astype(np.float32)
    payloads, _ = fedplug.codec("auto").encode_model({"bn/moving_variance": -before})
    total = fedplug.ModelSum.like({"bn/moving_variance": before})
    for weight in (0.1, 1 / 3, 0.7, 1e-3):
        total.add(payloads, weight)
    assert np.array_equal(before + total.mean()["bn/moving_variance"], np.zeros_like(before))


def test_a_statistic_that_would_become_infinite_in_its_own_dtype_is_refused():
    total = fedplug.ModelSum.like({"bn.running_var": np.ones(3, np.float32)})
    payloads, _ = fedplug.codec("auto").encode_model({"bn.running_var": np.full(3, 1e300)})
    with pytest.raises(PayloadError, match=r"'bn.running_var': it holds 1e\+300"):
        total.add(payloads)


def test_a_merge_with_another_form_is_refused():
    total = fedplug.ModelSum(SHAPES)
    for other in (
        total,
        fedplug.Sum(3),
        fedplug.ModelSum({"kernel": 3}),
        fedplug.ModelSum(SHAPES, "float64"),
    ):
        with pytest.raises(ArgumentError, match=r"another ModelSum|other names, shapes or dtypes"):
            total.merge(other)


def test_a_payload_can_be_checked_without_adding_it():
    total = fedplug.ModelSum(SHAPES)
    total.check(payloads_of(0), 3)
    assert (total.count, total.weight) == (0, 0)
    assert not any(array.any() for array in total.value().values())


def test_models_whose_merger_would_be_infinite_are_not_merged_in_part():
    one, other = fedplug.ModelSum({"a": 3, "b": 3}), fedplug.ModelSum({"a": 3, "b": 3})
    payloads, _ = fedplug.codec("identity").encode_model(
        {"a": np.ones(3, np.float32), "b": np.full(3, 3e38, np.float32)}
    )
    one.add(payloads)
    other.add(payloads)
    with pytest.raises(ArgumentError, match="infinite in float32"):
        one.merge(other)
    assert one.value()["a"].tolist() == [1, 1, 1]
    assert one.count == 1


def test_a_client_of_weight_0_is_checked_and_counted_and_changes_nothing():
    total = fedplug.ModelSum(SHAPES)
    total.add(payloads_of(0), 3)
    before = {name: array.tobytes() for name, array in total.value().items()}
    total.add(payloads_of(1), 0)
    assert {name: array.tobytes() for name, array in total.value().items()} == before
    assert (total.count, total.weight) == (2, 3)
    with pytest.raises(PayloadError):
        total.add({**payloads_of(1), "bias": b""}, 0)


def test_a_mean_that_rounding_makes_infinite_is_refused():
    total = fedplug.ModelSum({"a": 3})
    payload, _ = fedplug.codec("identity").encode(np.full(3, np.finfo(np.float32).max, np.float32))
    for _ in range(3):
        total.add({"a": payload}, 0.3)
    with pytest.raises(NonFiniteError, match="tensor 'a': the mean is not finite"):
        total.mean()


@pytest.mark.parametrize(
    ("dtype", "model", "update", "fits"),
    [
        ("float16", 1.0, 6e4, True),
        ("float16", 1e4, 6e4, False),
        ("float16", -65504.0, 1.0, True),
        ("float16", -np.inf, 6e4, True),
        ("bfloat16", 2e38, 2e38, False),
        ("float32", 3e38, 2e38, False),
        ("float32", np.finfo(np.float32).min, 1e3, True),
        ("float32", np.nan, 1e3, True),
        ("int64", 2**62, 2e38, True),
    ],
)
def test_an_update_that_could_make_the_model_infinite_is_refused(dtype, model, update, fits):
    """The dtype of the broadcast model decides, not that of the sum."""
    start = {"a": np.full(3, model).astype(np.dtype(dtype))}
    payloads, _ = fedplug.codec("identity").encode_model({"a": np.full(3, update, np.float32)})
    total = fedplug.ModelSum.like(start)
    if fits:
        total.add(payloads)
        assert total.count == 1
    else:
        with pytest.raises(PayloadError, match=r"tensor 'a': .* could make the model infinite"):
            total.add(payloads)
        assert total.count == 0
