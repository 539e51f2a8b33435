"""The choice between the compiled op and its reference."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import OpLibraryError, UnknownNameError
from fedplug.ops._tensorflow import loader as _loader
from fedplug.ops.lowering import available, resolve_lowering, use_lowering


@pytest.fixture
def without_library(monkeypatch, tmp_path):
    """Simulates an installation without the compiled ops."""
    monkeypatch.setattr(ops, "__path__", [str(tmp_path)])
    _loader.library.cache_clear()
    yield
    _loader.library.cache_clear()


def op_types(function, *specs):
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph.as_graph_def()
    bodies = [graph.node, *(f.node_def for f in graph.library.function)]
    return {node.op for body in bodies for node in body}


VECTOR, BYTES, INDICES = (
    tf.TensorSpec([None]),
    tf.TensorSpec([None], tf.uint8),
    tf.TensorSpec([None], tf.int32),
)
MATRIX, FACTOR = tf.TensorSpec([None, None]), tf.TensorSpec([None, 2])


CALLS = {
    "Fedplug>GroupedTopKResidual": (lambda d: ops.topk_residual(d, d, 3), VECTOR),
    "Fedplug>ChunkedTopKResidual": (
        lambda d: ops.chunked_topk_residual(d, d, 3, chunk=5, decay=1.0),
        VECTOR,
    ),
    "Fedplug>ScatterDecodeAdd": (
        lambda v, i: ops.scatter_decode_add(tf.zeros(9), v, i, [0, 3]),
        VECTOR,
        INDICES,
    ),
    "Fedplug>ScatterDecode": (lambda v, i: ops.scatter_decode(9, v, i, [0, 3]), VECTOR, INDICES),
    "Fedplug>EncodeIndices": (lambda i: ops.encode_indices(i, 9), INDICES),
    "Fedplug>DecodeIndices": (lambda c: ops.decode_indices(c, 3, 9), BYTES),
    "Fedplug>Crc32": (ops.crc32, BYTES),
    "Fedplug>TakeFromSum": (lambda d, i: ops.take_from_sum(d, d, i), VECTOR, INDICES),
    "Fedplug>MatrixTimes": (lambda a, b: ops.matrix_times(a, b, transposed=True), MATRIX, FACTOR),
    "Fedplug>LowRankMatrix": (lambda p, q: ops.low_rank_matrix(p, q), FACTOR, FACTOR),
    "Fedplug>LowRankResidual": (lambda a, p, q: ops.low_rank_residual(a, p, q), MATRIX, FACTOR, FACTOR),
    "Fedplug>EncodeValues": (lambda v: ops.encode_values(v, "qsgd"), VECTOR),
    "Fedplug>DecodeValues": (lambda c: ops.decode_values(c, 3, "qsgd", dtype=tf.float32), BYTES),
    "Fedplug>EncodeSymbols": (lambda p: ops.encode_symbols(p, 3, bits=8), BYTES),
    "Fedplug>DecodeSymbols": (lambda c: ops.decode_symbols(c, 3, bits=8), BYTES),
    "Fedplug>DrawIndices": (lambda s: ops.draw_indices(s, 3, 9), tf.TensorSpec([], tf.int64)),
    "Fedplug>SparseBody": (lambda b: ops.sparse_body(3, b, b), BYTES),
    "Fedplug>SplitSparseBody": (lambda b: ops.split_sparse_body(b, 9), BYTES),
    "Fedplug>Frame": (lambda b: ops.frame(b, b"header"), BYTES),
    "Fedplug>AllFinite": (lambda a, b: ops.all_finite([a, b]), VECTOR, MATRIX),
    "Fedplug>FiniteFromBytes": (lambda b: ops.finite_from_bytes(b, 3, tf.float32), BYTES),
    "Fedplug>Unframe": (lambda c: ops.unframe(c, b"header"), BYTES),
}


OF_THE_RUNTIME = {"fedplug_call_inline", "fedplug_reduce_inline"}
"""They have no references: without them functions are called by name, and a `While` reduces."""


def test_all_compiled_ops_are_called_here():
    exported = {name for name in vars(_loader.library()) if re.fullmatch("fedplug_.*(?<!_fallback)", name)}
    called = {re.sub("(?<!^)(?=[A-Z])", "_", op.replace(">", "")).lower() for op in CALLS}
    assert called == exported - OF_THE_RUNTIME


@pytest.mark.parametrize("op", CALLS)
def test_the_reference_is_made_of_stock_ops_that_any_tensorflow_runs(op):
    with use_lowering("reference"):
        types = op_types(*CALLS[op])
    assert not [t for t in types if t.startswith("Fedplug") or "PyFunc" in t]


@pytest.mark.parametrize("op", CALLS)
def test_auto_builds_the_compiled_op_where_it_can_be_loaded(op):
    assert op in op_types(*CALLS[op])


@pytest.mark.parametrize("op", CALLS)
def test_auto_builds_the_reference_without_the_library(op, without_library):
    assert op not in op_types(*CALLS[op])


def test_requesting_a_missing_compiled_op_says_how_to_install_it(without_library):
    assert not available()
    assert resolve_lowering("auto") == "reference"
    with pytest.raises(OpLibraryError, match="make setup"):
        resolve_lowering("fused")
    with pytest.raises(OpLibraryError, match="make setup"):
        ops.crc32(tf.zeros(3, tf.uint8), lowering="fused")


def test_an_explicit_lowering_wins_over_the_surrounding_one():
    with use_lowering("reference"):
        assert resolve_lowering() == "reference"
        assert resolve_lowering("fused") == "fused"
        assert "Fedplug>Crc32" in op_types(lambda c: ops.crc32(c, lowering="fused"), BYTES)


def test_the_surrounding_lowering_nests_and_ends_even_after_an_error():
    with use_lowering("reference"):
        with use_lowering("fused"):
            assert resolve_lowering() == "fused"
        with pytest.raises(KeyError), use_lowering("fused"):
            raise KeyError
        assert resolve_lowering() == "reference"
    assert resolve_lowering() == "fused"


def test_an_unknown_lowering_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="did you mean 'fused'"):
        resolve_lowering("fussed")
    with pytest.raises(UnknownNameError, match="lowering"), use_lowering("fast"):
        pass
