"""Sums of sparse payloads on arrays. csrc/tests/scatter_decode_test.cc compares them with a loop."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fedplug import errors, kernels


def test_the_accumulator_is_updated_in_its_own_buffer_whatever_its_shape():
    accumulator = np.zeros((2, 3), np.float32)
    flat = accumulator.reshape(-1)
    kernels.scatter_decode_add(
        accumulator, np.float32([1, 2]), np.int32([1, 5]), np.int64([0, 1, 2]), np.float32([10, 100])
    )
    np.testing.assert_array_equal(flat, np.float32([0, 10, 0, 0, 0, 200]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_and_products_of_16_bits_are_rounded_once_from_every_number(dtype):
    numbers = np.arange(65536).astype(np.uint16).view(dtype)
    others = numbers[np.random.default_rng(0).permutation(65536)]
    for weight in (None, 1.0, 0.1, 3e-5, 300.0):
        total, weights = numbers.copy(), None if weight is None else np.array([weight], dtype)
        kernels.scatter_decode_add(total, others, np.arange(65536, dtype=np.int32), weights=weights)
        with np.errstate(all="ignore"):
            terms = others if weights is None else (others.astype("f4") * weights.astype("f4")).astype(dtype)
            expected = (numbers.astype("f4") + terms.astype("f4")).astype(dtype)
        np.testing.assert_array_equal(total.astype("f4"), expected.astype("f4"))
        np.testing.assert_array_equal(np.signbit(total[total == 0]), np.signbit(expected[total == 0]))


def test_without_row_splits_there_is_one_payload():
    values, indices = np.float32([1, 2, 3]), np.int32([0, 2, 3])
    dense = np.float32([1, 0, 2, 3, 0])
    np.testing.assert_array_equal(kernels.scatter_decode(values, indices, size=5), dense)
    total = np.ones(5, np.float32)
    kernels.scatter_decode_add(total, values, indices, weights=np.float32([2]))
    np.testing.assert_array_equal(total, 1 + 2 * dense)
    with pytest.raises(errors.ArgumentError, match="index 2 is not above the one before it"):
        kernels.scatter_decode_add(total, values, np.int32([0, 2, 2]))


def call(**changes):
    arguments = {
        "accumulator": np.full(10, 0.5),
        "values": np.ones(5),
        "indices": np.int32([0, 9, 2, 3, 7]),
        "row_splits": np.int64([0, 2, 5]),
        "weights": None,
    }
    arguments.update(changes)
    return arguments


REFUSED = {
    "an index out of range": (
        {"indices": np.int32([0, 10, 2, 3, 7])},
        r"payload 0: index 10 is not in \[0, 10\)",
    ),
    "a negative index": ({"indices": np.int32([-1, 9, 2, 3, 7])}, "payload 0: index -1 is not in"),
    "a duplicate": (
        {"indices": np.int32([0, 9, 2, 7, 7])},
        r"payload 1: index 7 is not above the one before it \(7\)",
    ),
    "a descent": ({"indices": np.int32([0, 9, 2, 7, 3])}, r"payload 1: index 3 .*, at position 2 of 3"),
    "entries without a payload": ({"row_splits": np.int64([0, 2, 4])}, "row_splits ends with 4"),
    "no row splits": ({"row_splits": np.int64([])}, "row_splits is empty"),
    "a missing value": ({"values": np.ones(4)}, "there are 4 values and 5 indices"),
    "a missing weight": ({"weights": np.ones(1)}, "there are 1 weights for 2 payloads"),
    "weights of another dtype": ({"weights": np.ones(2, np.float32)}, "weights has dtype float32"),
    "int64 indices": ({"indices": np.arange(5)}, "indices has dtype int64; it must be int32"),
    "int32 row splits": ({"row_splits": np.int32([0, 2, 5])}, "row_splits has dtype int32; it must be int64"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_payload_is_named_and_nothing_is_written(changes, message):
    arguments = call(**changes)
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.scatter_decode_add(**arguments)
    np.testing.assert_array_equal(arguments["accumulator"], np.full(10, 0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(change for name, change in REFUSED.items() if name != "weights of another dtype"),
        ({"out": np.zeros(9)}, "out has 9 elements; it must have 10"),
        ({"out": np.zeros(10, np.float32)}, "out has dtype float32; it must be float64, as values"),
        ({"size": -1}, r"n = -1 is not in \[0, 2\^31\)"),
        ({"size": 2**31}, r"n = 2147483648 is not in \[0, 2\^31\)"),
    ],
)
def test_a_bad_payload_makes_no_dense_sum(changes, message):
    arguments = {**call(), "size": 10, "out": np.full(10, 0.5), **changes}
    del arguments["accumulator"]
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.scatter_decode(**arguments)
    assert set(arguments["out"]) in ({0.5}, {0.0})


def test_the_sum_must_not_share_memory_with_its_inputs():
    memory = np.zeros(10)
    with pytest.raises(errors.ArgumentError, match="accumulator and values share memory"):
        kernels.scatter_decode_add(**call(accumulator=memory, values=memory[:5]))
    arguments = {**call(values=memory[:5]), "size": 10, "out": memory}
    del arguments["accumulator"]
    with pytest.raises(errors.ArgumentError, match="out and values share memory"):
        kernels.scatter_decode(**arguments)
