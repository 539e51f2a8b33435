"""Tests that the count-sketch op equals its reference, and that sums of payloads are payloads of sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from fedplug_sketch import kernel
from fedplug_sketch import ops as sketch_ops
from fedplug_sketch.encoder import CountSketch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import kernels
from fedplug.errors import ConfigError
from fedplug.ops.lowering import op_library, use_lowering
from fedplug.ops.types import ArraySpec
from fedplug.testing import EncoderSuite, PluginPackageSuite

ROUND = tf.constant(3)
MASK = 2**64 - 1


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-sketch"


class TestOneRow(EncoderSuite):
    golden = Path(__file__).with_name("golden")

    def make_encoder(self):
        return CountSketch(0.5)


class TestThreeRows(EncoderSuite):
    shapes = ((0,), (7,), (3, 5), (300,))
    costly_checks_are_slow = True

    def make_encoder(self):
        return CountSketch(0.5, rows=3)


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def reference(x, keys, columns):
    """The table and the estimates, one element after the other."""
    table = np.zeros((len(keys), columns), x.dtype)
    places = [
        [
            ((h >> 32) * columns >> 32, -1 if h & 1 else 1)
            for h in (mix((i + key) & MASK) for i in range(len(x)))
        ]
        for key in keys
    ]
    for row, of_row in zip(table, places, strict=True):
        for (column, sign), value in zip(of_row, x, strict=True):
            row[column] += sign * value
    values = [[sign * row[c] for c, sign in of_row] for row, of_row in zip(table, places, strict=True)]
    return table, np.median(np.array(values), axis=0)


@settings(max_examples=40, deadline=None)
@given(
    n=st.one_of(st.integers(0, 70), st.integers(1000, 2100)),
    columns=st.integers(1, 300),
    rows=st.one_of(st.integers(1, 9), st.sampled_from([11, 14, 15])),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    draw=st.sampled_from(["normal", "ties", "zeros of either sign"]),
)
def test_kernel_op_and_their_references_give_the_sketch_written_out(n, columns, rows, seed, dtype, draw):
    rng = np.random.default_rng(seed)
    numbers = {
        "normal": rng.standard_normal(n),
        "ties": rng.integers(-1, 2, n) * rng.choice([-1.0, 1.0], n),
        "zeros of either sign": rng.choice([-0.0, 0.0], n),
    }
    x, keys = numbers[draw].astype(dtype), sketch_ops.row_keys(rows, seed, 3)
    np.testing.assert_array_equal(sketch_ops.row_keys(rows, seed, ROUND), keys)
    assert kernel.is_built()
    table, estimates = reference(x, [int(key) for key in keys], columns)
    assert kernel.count_sketch(x, keys, columns).tobytes() == table.tobytes()
    assert sketch_ops.count_sketch_of_arrays(x, keys, columns).tobytes() == table.tobytes()
    np.testing.assert_allclose(kernel.estimate(table, keys, n), estimates, rtol=1e-6)
    mixed = np.where(rng.random(table.shape) < 0.3, rng.choice(dtype([-0.0, 0.0]), table.shape), table)
    medians = kernel.estimate(mixed, keys, n)
    assert medians.tobytes() == sketch_ops.estimate_of_arrays(mixed, keys, n).tobytes()
    for lowering in ("fused", "reference"):
        with use_lowering(lowering):
            found = sketch_ops.count_sketch(tf.constant(x), tf.constant(keys), columns)
            again = sketch_ops.estimate(tf.constant(mixed), tf.constant(keys), n)
        np.testing.assert_array_equal(found, table)
        np.testing.assert_array_equal(again, medians)
        np.testing.assert_array_equal(np.signbit(again), np.signbit(medians))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (1, 2), (1, 3), (1, 64), (2, 3)])
def test_the_kernel_gives_the_same_bits_on_any_number_of_threads(monkeypatch, rows, threads, dtype):
    monkeypatch.setattr(kernels, "num_threads", lambda: threads)
    x = np.random.default_rng(0).standard_normal(200_003).astype(dtype)
    keys = sketch_ops.row_keys(rows, 7, 3)
    table = kernel.count_sketch(x, keys, 3001)  # every number is a sum of many, whose order matters
    assert table.tobytes() == sketch_ops.count_sketch_of_arrays(x, keys, 3001).tobytes()
    estimates = kernel.estimate(table, keys, x.size)
    assert estimates.tobytes() == sketch_ops.estimate_of_arrays(table, keys, x.size).tobytes()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_sums_of_tables_that_became_infinite_are_decoded_as_the_largest_numbers(rows):
    encoder, spec = CountSketch(1.0, rows=rows), ArraySpec((rows,), np.dtype("f"))
    table = np.full((rows, 1), np.inf, "f")
    decoded = encoder.decode({"table": table, "round": np.int32(3)}, spec)
    assert set(np.abs(decoded).tolist()) <= {float(np.finfo("f").max)}
    of_tensors = encoder.decode({"table": tf.constant(table), "round": ROUND}, tf.TensorSpec([rows]))
    assert decoded.tobytes() == of_tensors.numpy().tobytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda keys: kernel.count_sketch(np.ones(3, "f"), keys, 0), "needs at least one column"),
        (lambda keys: kernel.estimate(np.ones((2, 3), "f"), keys, 4), "1 keys for a table of 2 rows"),
        (lambda keys: kernel.estimate(np.ones((1, 0), "f"), keys, 4), "holds no 4 elements"),
    ],
)
def test_the_kernel_refuses_unsupported_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(sketch_ops.row_keys(1, 0, 3))


@pytest.mark.parametrize("rows", [1, 4])
def test_op_and_twin_give_the_same_bits_of_a_long_vector(rows):
    x = tf.constant(np.random.default_rng(0).standard_normal(200_003).astype(np.float32))
    keys = sketch_ops.row_keys(rows, 7, ROUND)

    def run(lowering):
        with use_lowering(lowering):
            table = tf.function(lambda: sketch_ops.count_sketch(x, keys, 1000), autograph=False)()
            return table, tf.function(lambda: sketch_ops.estimate(table, keys, 200_003), autograph=False)()

    for got, want in zip(run("fused"), run("reference"), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_sum_of_payloads_is_the_payload_of_the_sum(rows):
    rng, encoder = np.random.default_rng(0), CountSketch(0.2, rows=rows)
    # Whole numbers: their sums are exact, in whatever order.
    x, y = (tf.constant(rng.integers(-1000, 1000, 500), tf.float32) for _ in range(2))
    one, other, both = (encoder.encode(v, {}, ROUND)[0] for v in (x, y, x + y))
    np.testing.assert_array_equal(one["table"] + other["table"], both["table"])
    np.testing.assert_array_equal(one["round"], both["round"])


def test_rows_columns_and_signs_are_used_evenly():
    signs, places = sketch_ops._signs_and_columns(slice(0, 100_000), sketch_ops.row_keys(2, 0, 3), 10)
    for of_row in places:
        np.testing.assert_allclose(np.bincount(of_row, minlength=10), 10_000, rtol=0.05)
    np.testing.assert_allclose(signs.mean(axis=1), 0.5, atol=0.01)
    np.testing.assert_allclose((places[0] == places[1]).mean(), 0.1, atol=0.01)


def test_every_round_and_seed_has_its_own_columns():
    keys = {
        int(sketch_ops.row_keys(1, seed, tf.constant(number))[0]) for seed in (0, 1) for number in (0, 1, 2)
    }
    assert len(keys) == 6


def test_more_rows_find_the_large_elements_among_the_small_ones():
    x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    x[:10] = 300
    encoder, spec = CountSketch(0.5, rows=5), tf.TensorSpec(x.shape, tf.float32)
    decoded = encoder.decode(encoder.encode(tf.constant(x), {}, ROUND)[0], spec).numpy()
    assert set(np.argsort(-np.abs(decoded))[:10]) == set(range(10))
    np.testing.assert_allclose(decoded[:10], 300, rtol=0.1)


def test_the_error_of_one_row_is_the_norm_over_the_columns():
    x = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    encoder, spec = CountSketch(0.1), tf.TensorSpec(x.shape, tf.float32)
    decoded = encoder.decode(encoder.encode(tf.constant(x), {}, ROUND)[0], spec).numpy()
    assert np.var(decoded - x) == pytest.approx(np.sum(x**2) / 2000, rel=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lib: lib.fedplug_sketch_count_sketch([1.0], _keys(1), 0), "at least one column"),
        (lambda lib: lib.fedplug_sketch_count_sketch([1.0], _keys(1), -1), "columns must be in"),
        (lambda lib: lib.fedplug_sketch_estimate([[1.0]], _keys(2), 1), "one key for each row|must be equal"),
        (lambda lib: lib.fedplug_sketch_estimate([[1.0]], _keys(1), -1), "size must be in"),
        (lambda lib: lib.fedplug_sketch_estimate(np.zeros((1, 0), "f"), _keys(1), 1), "holds no elements"),
    ],
    ids=["no columns", "negative columns", "keys", "negative size", "empty table"],
)
def test_the_ops_refuse_unsupported_arguments(make, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        make(op_library("sketch"))


def _keys(rows):
    return tf.zeros([rows], tf.uint64)


@pytest.mark.parametrize("arguments", [{"fraction": 0}, {"fraction": 2}, {"rows": 0}, {"seed": -1}], ids=str)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ConfigError, match=f"countsketch {next(iter(arguments))} is"):
        CountSketch(**arguments)
