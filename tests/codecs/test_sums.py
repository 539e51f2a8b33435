"""Tests `Sum`: the promised numbers in the promised order, and no trace of a refused payload."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import ArgumentError, ConfigError, PayloadError

EXPRESSIONS = [
    "identity",
    "topk(0.2)",
    "topk(0.3) | qsgd(4) | rans",
    "randomk(0.4) | sign",
    "qsgd(5)",
    "qsgd(rounding='nearest')",
    "qsgd(2) | rans",
    "sign(error_feedback=False)",
    "float16",
]
NARROWER = {
    "float32": ["float16", "bfloat16", "float32"],
    "float64": ["float16", "bfloat16", "float32", "float64"],
    "float16": ["float16"],
    "bfloat16": ["bfloat16"],
}
WEIGHTS = [1.0, 0.3, 2.5, 0.0, 7, 1e-3]


def update(seed, dtype="float32", shape=(5, 9)):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.dtype(dtype))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_products_and_sums_are_rounded_once_and_in_order(data):
    dtype = np.dtype(data.draw(st.sampled_from(sorted(NARROWER))))
    shape = data.draw(st.sampled_from([(), (0,), (1,), (5, 9), (70_001,)]))
    total, expected = fedplug.Sum(shape, dtype), np.zeros(shape, dtype)
    weights = []
    for seed in range(data.draw(st.integers(0, 5))):
        codec = fedplug.codec(data.draw(st.sampled_from(EXPRESSIONS)))
        given_dtype = data.draw(st.sampled_from(NARROWER[dtype.name]))
        weights.append(data.draw(st.sampled_from(WEIGHTS)))
        payload, _ = codec.encode(update(seed, given_dtype, shape))
        total.add(payload, weights[-1])
        product = np.asarray(weights[-1], dtype) * fedplug.decode(payload).astype(dtype)
        expected = np.asarray(expected + product)
    value = total.value()
    assert (value.dtype, value.shape) == (dtype, shape)
    assert value.tobytes() == expected.tobytes()
    assert total.count == len(weights)
    assert total.weight == pytest.approx(sum(weights))


def test_parts_are_merged_element_by_element():
    codec = fedplug.codec("topk(0.4)")
    payloads = [codec.encode(update(seed))[0] for seed in range(4)]
    one, other, whole = (fedplug.Sum((5, 9)) for _ in range(3))
    for payload in payloads[:2]:
        one.add(payload, 2)
    for payload in payloads[2:]:
        other.add(payload, 0.5)
    expected = one.value() + other.value()
    one.merge(other)
    assert one.value().tobytes() == expected.tobytes()
    assert (one.count, one.weight) == (4, 5.0)
    assert other.count == 2
    for payload, weight in zip(payloads, (2, 2, 0.5, 0.5), strict=True):
        whole.add(payload, weight)
    np.testing.assert_allclose(one.value(), whole.value(), rtol=1e-6, atol=1e-6)


def test_a_merge_with_another_form_is_refused():
    total = fedplug.Sum((3,))
    for other, message in [
        (total, "another Sum"),
        (np.zeros(3, np.float32), "another Sum"),
        (fedplug.Sum((4,)), r"the other sum is float32\[4\], this one is float32\[3\]"),
        (fedplug.Sum((3,), "float64"), r"the other sum is float64\[3\], this one is float32\[3\]"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            total.merge(other)


@pytest.mark.parametrize("shape", [7, (7,), [7], np.int64(7), (np.int32(7),)])
def test_a_shape_is_a_number_or_several(shape):
    assert fedplug.Sum(shape).value().shape == (7,)


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64", "longdouble", "torch.float32", 3])
def test_a_sum_is_of_floats(dtype):
    with pytest.raises(ArgumentError, match="a sum is of float32, float64, float16 or bfloat16"):
        fedplug.Sum((3,), dtype)


def test_a_value_is_a_copy():
    total = fedplug.Sum((3,))
    total.value()[:] = 9
    assert total.value().tolist() == [0, 0, 0]


def refused():
    good, _ = fedplug.codec("topk(0.2) | qsgd(4)").encode(update(0))
    body = wire.unframe(good).body
    yield "cut", good[:-1], {}, PayloadError
    yield "changed", good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], {}, PayloadError
    yield "cut within", wire.frame(body[:-1], "sparse/1+qsgd/1", "float32", (5, 9)), {}, PayloadError
    yield "of another shape", fedplug.codec("sign").encode(update(0, shape=(9, 5)))[0], {}, PayloadError
    yield "of a wider dtype", fedplug.codec("sign").encode(update(0, "float64"))[0], {}, PayloadError
    yield "of integers", fedplug.codec("sign").encode(np.ones((5, 9), np.int32))[0], {}, PayloadError
    yield "of nobody", wire.frame(b"", "nobody/1", "float32", (5, 9)), {}, PayloadError
    nan = np.full((5, 9), np.nan, "<f4").tobytes()
    yield "not a number", wire.frame(nan, "identity/1", "float32", (5, 9)), {}, PayloadError
    yield "no buffer", "text", {}, ArgumentError
    for weight in (np.nan, np.inf, -0.5, 1e39, "1", None, True, 10**400):
        yield f"weight {weight!r}"[:20], good, {"weight": weight}, ConfigError


@pytest.mark.parametrize(
    ("payload", "options", "error"), [pytest.param(*rest, id=name) for name, *rest in refused()]
)
def test_refused_payloads_add_nothing(payload, options, error):
    total = fedplug.Sum((5, 9))
    total.add(fedplug.codec("topk(0.2)").encode(update(1))[0], 3)
    before = total.value().tobytes(), total.count, total.weight
    with pytest.raises(error):
        total.add(payload, **options)
    assert (total.value().tobytes(), total.count, total.weight) == before


def test_any_number_of_threads_may_add_and_merge():
    """Uses small whole numbers, whose sums are exact in any order."""
    random = np.random.default_rng(0)
    shape = (300,)
    updates = [random.integers(-8, 9, shape).astype(np.float32) for _ in range(40)]
    codecs = [fedplug.codec("topk(0.3, error_feedback=False)"), fedplug.codec("identity")]
    payloads = [codecs[number % 2].encode(x)[0] for number, x in enumerate(updates)]
    total, parts = fedplug.Sum(shape), [fedplug.Sum(shape) for _ in range(8)]

    def add(number):
        for payload in payloads[number::8]:
            total.add(payload, 2)
            parts[number].add(payload, 2)
        if number % 2:
            parts[0].merge(parts[number])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(8)))
    for number in (2, 4, 6):
        parts[0].merge(parts[number])
    expected = 2 * sum(fedplug.decode(payload) for payload in payloads)
    for result in (total, parts[0]):
        assert result.value().tobytes() == expected.tobytes()
        assert (result.count, result.weight) == (40, 80)


def test_a_sparse_payload_costs_its_entries_and_not_the_size_of_the_sum():
    size = 10_000_000
    x = np.zeros(size, np.float32)
    x[:: size // 1000] = 1
    payload, _ = fedplug.codec("topk(count=1000, error_feedback=False)").encode(x)
    total = fedplug.Sum((size,))
    total.add(payload, 0.5)
    tracemalloc.start()
    total.add(payload)
    total.add(payload, 0.25)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert total.value().sum() == 1750


def payload_of(value, dtype="float32", codec="identity", size=9):
    return fedplug.codec(codec).encode(np.full(size, value, dtype))[0]


TOO_LARGE = {
    "one product": ("float32", [(1e38, 10)]),
    "the sum of two": ("float32", [(2e38, 1), (2e38, 1)]),
    "the sum of two products": ("float32", [(-1e36, 200), (-1e36, 200)]),
    "a sum in 16 bits": ("float16", [(3e4, 1), (3e4, 1), (3e4, 1)]),
    "bfloat16": ("bfloat16", [(3e38, 1), (3e38, 1)]),
    "float64": ("float64", [(1e308, 1), (1e308, 0.9)]),
}


@pytest.mark.parametrize("codec", ["identity", "topk(0.5)"])
@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_payload_that_would_make_the_sum_infinite_is_refused(case, codec):
    dtype, added = TOO_LARGE[case]
    total = fedplug.Sum(9, dtype)
    total.add(payload_of(1, dtype, codec), 2)
    for value, weight in added[:-1]:
        total.add(payload_of(value, dtype, codec), weight)
    before = total.value().tobytes(), total.count, total.weight
    value, weight = added[-1]
    with pytest.raises(PayloadError, match=f"infinite in {dtype}"):
        total.add(payload_of(value, dtype, codec), weight)
    assert (total.value().tobytes(), total.count, total.weight) == before
    total.add(payload_of(1, dtype, codec), 3)
    assert np.isfinite(total.value().astype(float)).all()


def test_sums_near_the_largest_number_are_exact():
    """Values near the largest number are added unless the sum overflows, whatever the number of payloads."""
    total, expected = fedplug.Sum(9), np.zeros(9, np.float32)
    for value in (3e38, -3e38, 2e38, 1.3e38, -3.3e38, 3.4e38):
        total.add(payload_of(value))
        expected += np.full(9, value, np.float32)
        assert total.value().tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("dtype", "weight", "message"),
    [
        ("float32", 1e-46, "too small for a sum of float32"),
        ("float32", 1e-40, "too small for a sum of float32"),
        ("float16", 1e-5, "too small for a sum of float16"),
        ("float64", 5e-324, "too small for a sum of float64"),
        ("float16", 7e4, "infinite in a sum of float16"),
    ],
)
def test_a_weight_that_the_dtype_of_the_sum_does_not_hold_is_refused(dtype, weight, message):
    with pytest.raises(ConfigError, match=message):
        fedplug.Sum(9, dtype).add(payload_of(1, dtype), weight)


def test_weights_that_add_up_to_infinity_are_refused():
    one, other = fedplug.Sum(9), fedplug.Sum(9)
    for total in (one, other):
        total.add(payload_of(0), 3e38)
        with pytest.raises(ConfigError, match="the weights add up to 6e"):
            total.add(payload_of(0), 3e38)
        assert (total.count, total.weight) == (1, 3e38)
    with pytest.raises(ConfigError, match="the weights add up to 6e"):
        one.merge(other)
