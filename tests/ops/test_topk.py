"""The ops for top-k of a tensor and a list give the bits of their references.

csrc/tests compares with a sort.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import ops
from fedplug.errors import ArgumentError

INTERESTING = (0.0, -0.0, 1.0, -1.0, 1.5, -1.5, 2.0**-12, 65504.0, -3e38, np.inf, -np.inf, np.nan)
ELEMENTS = st.one_of(st.sampled_from(INTERESTING[:7]), st.sampled_from(INTERESTING), st.floats(-100, 100))
# Few sizes, as a reference is traced once for each.
UPDATES = st.sampled_from([0, 1, 2, 7, 40]).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.float64, n, elements=ELEMENTS), hnp.arrays(np.float64, n, elements=ELEMENTS)
    )
)


@pytest.fixture(scope="session")
def dtype(wide_dtype):
    return wide_dtype


def without_denormals(delta, residual):
    """Sets entries to zero where TensorFlow would flush one of them or their sum to zero."""
    tiny = np.finfo(delta.dtype).tiny
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in (delta, residual, delta + residual)]
    flushed = np.any([(a != 0) & (abs(a) < tiny) for a in wide], axis=0)
    return tuple(np.where(flushed, np.zeros_like(a), a) for a in (delta, residual))


@settings(deadline=None)
@given(update=UPDATES, k=st.integers(0, 45))
def test_op_and_reference_agree_bit_for_bit(agree, as_dtype, update, k):
    delta, residual = without_denormals(*as_dtype(*update))
    agree(ops.topk_residual, delta, residual, k)


def test_op_and_reference_agree_where_many_threads_and_ties_meet(agree, as_dtype):
    rng = np.random.default_rng(7)
    delta, residual = as_dtype(*(rng.integers(-9, 9, 200_003) / 4 for _ in range(2)))
    for k in (1, 777, 150_000):
        agree(ops.topk_residual, delta, residual, k)


@pytest.mark.parametrize("n", [5, 100_000])
def test_the_op_keeps_denormals_as_numpy_does_on_every_thread(as_dtype, denormal, n):
    tiny = np.full(n, denormal)
    delta, residual = as_dtype(tiny, tiny)
    got = ops.topk_residual(delta, residual, 2, lowering="fused")
    total = delta + residual
    assert got.values.numpy().tobytes() == total[:2].tobytes()
    assert got.indices.numpy().tolist() == [0, 1]
    assert got.residual.numpy()[2:].tobytes() == total[2:].tobytes()


def test_the_reference_takes_denormals_for_zero(as_dtype, denormal):
    (delta,) = as_dtype(np.full(5, denormal))
    got = ops.topk_residual(delta, np.zeros_like(delta), 2, lowering="reference")
    assert np.count_nonzero(got.residual) == 0


def test_a_refused_update_names_the_number_of_entries_and_a_remedy(lowering):
    delta = tf.constant([1.0, np.nan, np.inf])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"NaN or infinite(.|\n)*eave this update out"
    ) as error:
        ops.topk_residual(delta, tf.zeros(3), 1, lowering=lowering)
    assert "2" in error.value.message


def test_a_negative_k_is_refused(lowering):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"k must be 0 or more.*-1"):
        ops.topk_residual(tf.zeros(3), tf.zeros(3), -1, lowering=lowering)


def test_a_dtype_the_op_is_not_made_for_is_refused_by_name(lowering):
    for refused in (tf.int32, tf.float16, tf.bfloat16):
        message = f"delta must be float32 or float64, not {refused.name}; fedplug.ops.widened"
        with pytest.raises(TypeError, match=message):
            ops.topk_residual(tf.zeros(3, refused), tf.zeros(3, refused), 1, lowering=lowering)


def test_shapes_that_differ_are_refused_while_building(lowering):
    with pytest.raises(ValueError, match=r"has shape .* but .* has"):
        ops.topk_residual(tf.zeros([2, 2]), tf.zeros([2, 3]), 1, lowering=lowering)


@pytest.mark.parametrize("shapes", [([2], [3]), ([2], [2, 2]), ([], [1]), ([2, 3], [6])])
def test_shapes_that_differ_are_refused_when_run(lowering, shapes):
    unknown = tf.TensorSpec(None, tf.float32)
    run = tf.function(
        lambda d, r: ops.topk_residual(d, r, 1, lowering=lowering),
        input_signature=[unknown, unknown],
        autograph=False,
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="residual"):
        run(tf.zeros(shapes[0]), tf.zeros(shapes[1]))


@pytest.mark.parametrize(
    ("shape", "k", "selected"),
    [([4, 5], 3, 3), ([4, 5], 99, 20), ([4, None], 3, None), (None, 0, None), ([0], 4, 0)],
)
def test_static_shapes_are_known_as_far_as_they_can_be(lowering, shape, k, selected):
    spec = tf.TensorSpec(shape, tf.float32)
    graph = tf.function(lambda d, r: ops.topk_residual(d, r, k, lowering=lowering), autograph=False)
    out = graph.get_concrete_function(spec, spec).structured_outputs
    assert out.residual.shape.rank == (None if shape is None else len(shape))
    if shape is not None:
        assert out.residual.shape.as_list() == shape
    if selected is not None:
        assert out.values.shape == out.indices.shape == [selected]
    else:
        assert out.values.shape.rank == out.indices.shape.rank == 1


def test_a_constant_negative_k_is_refused_while_building():
    graph = tf.function(lambda d: ops.topk_residual(d, d, -1, lowering="fused"), autograph=False)
    with pytest.raises(ValueError, match="k must be 0 or more, not -1"):
        graph.get_concrete_function(tf.TensorSpec([3]))


def test_many_calls_at_once_share_the_pool_and_all_finish():
    rng = np.random.default_rng(5)
    delta, residual = tf.constant(rng.normal(size=(2, 300_000)), tf.float32)
    call = tf.function(lambda d, r: ops.topk_residual(d, r, 1000, lowering="fused"), autograph=False)
    expected = call(delta, residual)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: call(delta, residual), range(32)):
            assert all(np.array_equal(g, e) for g, e in zip(got, expected, strict=True))


SIZES = st.sampled_from([[0], [7], [3, 0, 12], [1, 1, 1], [12, 7, 0, 5, 2]])


def tensors_of(as_dtype, sizes, seed):
    """Tensors of small integers, with ties within and between them."""
    rng = np.random.default_rng(seed)
    return [as_dtype(*rng.integers(-4, 5, (2, size)).astype(np.float64)) for size in sizes]


@settings(deadline=None)
@given(sizes=SIZES, k=st.integers(0, 50), seed=st.integers(0, 99), bad=st.booleans())
def test_op_and_reference_select_the_same_from_a_list(agree, as_dtype, sizes, k, seed, bad):
    tensors = tensors_of(as_dtype, sizes, seed)
    if bad and sizes[-1]:
        tensors[-1][0][-1] = np.nan
    deltas, residuals = zip(*tensors, strict=True)
    agree(ops.grouped_topk_residual, deltas, residuals, k)


def test_shapes_of_a_list_are_kept_and_known(lowering):
    specs = [tf.TensorSpec([3, 4], tf.float32), tf.TensorSpec([], tf.float32), tf.TensorSpec([0], tf.float32)]
    graph = tf.function(
        lambda *d: ops.grouped_topk_residual(d, d, 5, lowering=lowering), autograph=False
    ).get_concrete_function(*specs)
    assert [r.shape for r in graph.structured_outputs.residuals] == [spec.shape for spec in specs]
    got = graph(tf.ones([3, 4]), tf.ones([]), tf.ones([0]))
    assert got.values.shape == [5]
    assert got.row_splits.numpy().tolist() == [0, 5, 5, 5]


def test_lists_that_do_not_fit_are_refused(lowering):
    one, two = tf.zeros(1), tf.zeros(2)
    with pytest.raises(ArgumentError, match="0 deltas and 0 residuals"):
        ops.grouped_topk_residual([], [], 1, lowering=lowering)
    with pytest.raises(ArgumentError, match="2 deltas and 1 residuals"):
        ops.grouped_topk_residual([one, two], [one], 1, lowering=lowering)
    with pytest.raises(ValueError, match=r"delta 1 has shape .* but residual 1 has"):
        ops.grouped_topk_residual([one, two], [one, one], 1, lowering=lowering)
    with pytest.raises(TypeError, match="of one dtype, not float32 and float64"):
        ops.grouped_topk_residual(
            [one, tf.zeros(1, tf.float64)], [one, tf.zeros(1, tf.float64)], 1, lowering=lowering
        )
