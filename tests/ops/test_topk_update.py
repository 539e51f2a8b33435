"""`topk_residual_update` and its grouped form leave the results of the functional ops in variables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import ops
from fedplug.errors import ArgumentError, UnknownNameError
from fedplug.ops._tensorflow import loader as _loader

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


def bits(tensors):
    return [(t.dtype, tuple(t.shape), t.numpy().tobytes()) for t in tf.nest.flatten(tensors)]


def tensors_of(as_dtype, sizes, seed):
    """Deltas and residuals of small integers, with ties within and between tensors."""
    rng = np.random.default_rng(seed)
    return zip(*(as_dtype(*rng.integers(-4, 5, (2, size)).astype(float)) for size in sizes), strict=True)


def address(variable):
    return np.asarray(memoryview(variable.read_value())).ctypes.data


@settings(deadline=None)
@given(size=st.integers(0, 30), k=st.integers(0, 35), seed=st.integers(0, 99), drop=st.booleans())
def test_it_equals_the_functional_op(as_dtype, lowering, size, k, seed, drop):
    (delta,), (before,) = tensors_of(as_dtype, [size], seed)
    if drop and size:
        delta[0] = np.inf
    policy = {"on_nonfinite": "drop" if drop else "error", "lowering": lowering}
    expected = ops.topk_residual(delta, before, k, **policy)
    residual = tf.Variable(before)
    got = ops.topk_residual_update(residual, delta, k, **policy)
    assert bits(got) == bits([expected.values, expected.indices, expected.nonfinite])
    assert bits(residual.read_value()) == bits(expected.residual)


@settings(deadline=None)
@given(sizes=SIZES, k=st.integers(0, 40), seed=st.integers(0, 99))
def test_one_k_for_a_list_equals_the_functional_op(as_dtype, lowering, sizes, k, seed):
    deltas, before = tensors_of(as_dtype, sizes, seed)
    expected = ops.grouped_topk_residual(deltas, before, k, lowering=lowering)
    residuals = [tf.Variable(b) for b in before]
    got = ops.grouped_topk_residual_update(residuals, deltas, k, lowering=lowering)
    assert bits(got) == bits([*expected[:3], expected.nonfinite])
    assert bits([r.read_value() for r in residuals]) == bits(expected.residuals)


@settings(deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_one_k_per_tensor_equals_the_functional_op_for_each(as_dtype, lowering, sizes, seed):
    deltas, before = tensors_of(as_dtype, sizes, seed)
    ks = np.random.default_rng(seed).integers(0, 14, len(sizes))
    each = [ops.topk_residual(d, b, k, lowering=lowering) for d, b, k in zip(deltas, before, ks, strict=True)]
    residuals = [tf.Variable(b) for b in before]
    got = ops.grouped_topk_residual_update(residuals, deltas, ks, lowering=lowering)
    assert bits(got.values) == bits(tf.concat([e.values for e in each], 0))
    assert bits(got.indices) == bits(tf.concat([e.indices for e in each], 0))
    np.testing.assert_array_equal(got.row_splits, np.cumsum([0, *(len(e.values) for e in each)]))
    assert bits([r.read_value() for r in residuals]) == bits([e.residual for e in each])


@pytest.mark.parametrize("k", [3, [2, 1]])
def test_an_update_that_is_refused_changes_no_variable(lowering, k):
    residuals = [tf.Variable([1.0, 2.0]), tf.Variable([3.0, np.inf])]
    held = residuals[0].read_value()  # forces the first update into a new buffer
    before = bits([r.read_value() for r in residuals])
    deltas = [tf.ones(2), tf.ones(2)]

    @tf.function(autograph=False)
    def update():
        return ops.grouped_topk_residual_update(residuals, deltas, k, lowering=lowering)

    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        ops.grouped_topk_residual_update(residuals, deltas, k, lowering=lowering)
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinite"):
        update()
    assert bits([r.read_value() for r in residuals]) == before
    assert held.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("on_nonfinite", ["error", "drop"])
def test_the_op_writes_into_the_buffer_of_the_variable(on_nonfinite):
    with tf.device("/CPU:0"):  # where NumPy sees addresses
        residuals = [tf.Variable(tf.random.normal([size])) for size in (300_000, 1000)]
        before = [address(r) for r in residuals]
        for k in (10, [1, 1]):
            ops.grouped_topk_residual_update(
                residuals,
                [tf.ones(r.shape) for r in residuals],
                k,
                on_nonfinite=on_nonfinite,
                lowering="fused",
            )
            assert [address(r) for r in residuals] == before


def test_earlier_reads_do_not_change(lowering):
    residual = tf.Variable([1.0, 2.0, 3.0])
    read = residual.read_value()
    array = residual.numpy()
    got = ops.topk_residual_update(residual, read, 1, lowering=lowering)
    assert got.values.numpy().tolist() == [6]
    assert read.numpy().tolist() == array.tolist() == [1, 2, 3]
    assert residual.numpy().tolist() == [2, 4, 0]


def test_a_variable_that_is_read_in_pieces_can_be_updated(lowering):
    """`sparse_read` makes TensorFlow copy the variable on every read."""
    residual = tf.Variable([1.0, 2.0, 3.0])
    piece = residual.sparse_read([2])
    ops.topk_residual_update(residual, tf.zeros(3), 1, lowering=lowering)
    assert (piece.numpy().tolist(), residual.sparse_read([0, 2]).numpy().tolist()) == ([3], [1, 0])


def test_updates_and_reads_in_a_function_happen_in_the_order_they_are_written(lowering):
    residual = tf.Variable([1.0, 2.0, 3.0])

    @tf.function(autograph=False)
    def step(delta):
        first = ops.topk_residual_update(residual, delta, 1, lowering=lowering)
        between = residual.read_value()
        second = ops.topk_residual_update(residual, between, 1, lowering=lowering)
        ops.topk_residual_update(residual, delta, 1, lowering=lowering)  # its result is unused
        return first.values, between, second.values

    for _ in range(2):
        residual.assign([1.0, 2.0, 3.0])
        first, between, second = step(tf.ones(3))
        assert (float(first[0]), between.numpy().tolist(), float(second[0])) == (4, [2, 3, 0], 6)
        assert residual.numpy().tolist() == [0, 1, 1]


def test_threads_that_update_one_variable_take_turns():
    """Each call adds 1 to every element and selects one entry: in any order, no data is lost."""
    n, turns = 50_000, 40
    residuals = [tf.Variable(tf.zeros(n)), tf.Variable(tf.zeros(n))]
    delta = tf.ones(n)

    def turn(i):
        order = residuals if i % 2 else residuals[::-1]  # both orders lock in the same order
        return ops.grouped_topk_residual_update(order, [delta, delta], [1, 1], lowering="fused").values

    with ThreadPoolExecutor(4) as pool:
        taken = [tf.reduce_sum(values, keepdims=True) for values in pool.map(turn, range(turns))]
    total = sum(float(tf.reduce_sum(r)) for r in residuals) + float(tf.reduce_sum(taken))
    assert total == 2 * n * turns


def test_a_variable_without_a_value_is_refused(lowering):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        residual = tf.compat.v1.get_variable("residual", initializer=tf.zeros(3), use_resource=True)
        taken = ops.topk_residual_update(residual, tf.ones(3), 1, lowering=lowering)
        with pytest.raises(tf.errors.FailedPreconditionError, match="residual"):
            session.run(taken)
        session.run(residual.initializer)
        assert session.run(taken).indices.tolist() == [0]
        assert session.run(residual).tolist() == [0, 1, 1]


def test_a_variable_of_unknown_shape_is_checked_when_run(lowering):
    residual = tf.Variable([1.0, 2.0], shape=tf.TensorShape(None))
    update = tf.function(lambda delta: ops.topk_residual_update(residual, delta, 1, lowering=lowering))
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        update(tf.zeros(3))
    update(tf.zeros(2))
    assert residual.numpy().tolist() == [1, 0]


def test_static_shapes_are_known_as_far_as_they_can_be(lowering):
    residuals = [tf.Variable(tf.zeros([4, 5])), tf.Variable(0.0)]

    def outputs(k):
        update = tf.function(
            lambda: ops.grouped_topk_residual_update(residuals, [tf.zeros([4, 5]), 0.0], k, lowering=lowering)
        )
        return update.get_concrete_function().structured_outputs

    for k, selected in ((3, 3), (99, 21), ([3, 9], 4)):
        got = outputs(k)
        assert got.values.shape == got.indices.shape == [selected]
        assert (got.row_splits.shape, got.nonfinite.shape) == ([3], [])


def test_arguments_that_do_not_fit_are_refused(lowering):
    one, two = tf.Variable(tf.zeros(1)), tf.Variable(tf.zeros(2))

    def many(residuals, deltas, k=1):
        return ops.grouped_topk_residual_update(residuals, deltas, k, lowering=lowering)

    with pytest.raises(ArgumentError, match="0 residuals and 0 deltas"):
        many([], [])
    with pytest.raises(ArgumentError, match="2 residuals and 1 deltas"):
        many([one, two], [tf.zeros(1)])
    with pytest.raises(ArgumentError, match="listed twice"):
        many([one, one], [tf.zeros(1)] * 2)
    with pytest.raises(ArgumentError, match=r"shape \(3,\); give one number for all of the 2 tensors"):
        many([one, two], [tf.zeros(1), tf.zeros(2)], [1, 2, 3])
    with pytest.raises(ArgumentError, match="k must be a scalar"):
        ops.topk_residual_update(one, tf.zeros(1), [1], lowering=lowering)
    with pytest.raises(ValueError, match=r"delta 1 has shape .* but residual 1 has"):
        many([one, two], [tf.zeros(1), tf.zeros(1)])
    with pytest.raises(TypeError, match=r"residual must be a tf\.Variable, not a EagerTensor"):
        ops.topk_residual_update(tf.zeros(1), tf.zeros(1), 1, lowering=lowering)
    with pytest.raises(TypeError, match="residual must be float32 or float64"):
        ops.topk_residual_update(tf.Variable([1]), [1], 1, lowering=lowering)
    with pytest.raises(TypeError, match="of one dtype, not float32 and float64"):
        many([one, tf.Variable(0.0, dtype=tf.float64)], [tf.zeros(1), 0.0])
    for k in (-1, [1, -1]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"k must be 0 or more"):
            many([one, two], [tf.zeros(1), tf.zeros(2)], k)
    with pytest.raises(UnknownNameError, match="did you mean 'drop'"):
        ops.topk_residual_update(one, tf.zeros(1), 1, on_nonfinite="dropp", lowering=lowering)


def test_the_op_refuses_attributes_that_only_foreign_graphs_have():
    op = _loader.library().fedplug_resource_top_k_residual
    one = tf.Variable(tf.zeros(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="listed twice"):
        op([one.handle, one.handle], [tf.zeros(1)] * 2, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="holds float, not double"):
        op([one.handle], [tf.zeros(1, tf.float64)], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="one for each tensor"):
        op([one.handle], [tf.zeros(1)], [1, 1])
