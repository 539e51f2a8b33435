"""The choice between the compiled op and its reference, and what all ops do alike in graphs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf

from fedplug import kernels, ops
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


def traced(function, *arguments):
    """A graph for any number of elements or rows."""
    specs = [tf.TensorSpec([None, *a.shape[1:]] if a.shape else [], a.dtype) for a in arguments]
    return tf.function(function, input_signature=specs, autograph=False)


def op_types(function, *arguments):
    graph = traced(function, *arguments).get_concrete_function().graph.as_graph_def()
    bodies = [graph.node, *(f.node_def for f in graph.library.function)]
    return {node.op for body in bodies for node in body}


X, PLACES, SEED = np.float32([3, -1, 2, 4, 0.5]), np.int32([0, 2, 4]), np.int64(7)
MATRIX, FACTOR = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[1, -2], [0, 4]])
BYTES = np.uint8([1, 2, 3])
ROWS = tf.constant([0, 3], tf.int64)

# The name of a compiled op, a call, and its arguments.
CALLS = {
    "Fedplug>GroupedTopKResidual": (lambda d: ops.topk_residual(d, d, 3), X),
    "Fedplug>ScatterDecodeAdd": (lambda v, i: ops.scatter_decode_add(tf.zeros(9), v, i, ROWS), X[:3], PLACES),
    "Fedplug>ScatterDecode": (lambda v, i: ops.scatter_decode(9, v, i, ROWS), X[:3], PLACES),
    "Fedplug>EncodeIndices": (lambda i: ops.encode_indices(i, 9), PLACES),
    "Fedplug>DecodeIndices": (lambda c: ops.decode_indices(c, 3, 9), kernels.encode_indices(PLACES, 9)),
    "Fedplug>Crc32": (ops.crc32, BYTES),
    "Fedplug>TakeFromSum": (lambda d, i: ops.take_from_sum(d, d, i), X, PLACES),
    "Fedplug>MatrixTimes": (lambda a, b: ops.matrix_times(a, b, transposed=True), MATRIX, MATRIX),
    "Fedplug>LowRankMatrix": (ops.low_rank_matrix, MATRIX, FACTOR),
    "Fedplug>EncodeValues": (lambda v: ops.encode_values(v, "qsgd"), X),
    "Fedplug>DecodeValues": (
        lambda c: ops.decode_values(c, 5, "qsgd", dtype=tf.float32),
        kernels.encode_values(X, "qsgd"),
    ),
    "Fedplug>EncodeSymbols": (lambda p: ops.encode_symbols(p, 3, bits=8), BYTES),
    "Fedplug>DecodeSymbols": (
        lambda c: ops.decode_symbols(c, 3, bits=8),
        kernels.encode_symbols(BYTES, 3, bits=8),
    ),
    "Fedplug>DrawIndices": (lambda s: ops.draw_indices(s, 3, 9), SEED),
    "Fedplug>SparseBody": (lambda b: ops.sparse_body(3, b, b), BYTES),
    "Fedplug>SplitSparseBody": (lambda b: ops.split_sparse_body(b, 9), kernels.sparse_body(3, BYTES, BYTES)),
    "Fedplug>Frame": (lambda b: ops.frame(b, b"header"), BYTES),
    "Fedplug>AllFinite": (lambda a, b: ops.all_finite([a, b]), X, MATRIX),
    "Fedplug>FiniteFromBytes": (lambda b: ops.finite_from_bytes(b, 5, tf.float32), X.view(np.uint8)),
    "Fedplug>Unframe": (
        lambda c: ops.unframe(c, b"header"),
        np.frombuffer(kernels.frame(BYTES, b"header"), np.uint8),
    ),
}
OF_VECTORS = [
    *("EncodeIndices", "DecodeIndices", "Crc32", "EncodeValues", "DecodeValues", "EncodeSymbols"),
    *("DecodeSymbols", "SparseBody", "SplitSparseBody", "Frame", "Unframe"),
]


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
def test_a_graph_for_any_size_gives_what_an_eager_call_gives(op, lowering):
    call, *arguments = CALLS[op]
    with use_lowering(lowering):
        found = traced(call, *arguments)(*arguments)
    wanted = call(*map(tf.constant, arguments))
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        assert (one.dtype, one.shape, one.numpy().tobytes()) == (
            other.dtype,
            other.shape,
            other.numpy().tobytes(),
        )


@pytest.mark.parametrize(
    ("lowering", "op", "size"),
    [
        *[("fused", "DecodeIndices", 3), ("fused", "DecodeValues", 5), ("fused", "DrawIndices", 3)],
        *[("fused", "FiniteFromBytes", 5), ("fused", "ScatterDecode", 9), ("reference", "ScatterDecode", 9)],
    ],
)
def test_a_constant_length_gives_a_static_shape(lowering, op, size):
    with use_lowering(lowering):
        graph = traced(*CALLS[f"Fedplug>{op}"]).get_concrete_function()
    assert graph.output_shapes == [size]


@pytest.mark.parametrize("op", OF_VECTORS)
def test_a_matrix_in_place_of_a_vector_is_refused_while_building(op, lowering):
    call, argument = CALLS[f"Fedplug>{op}"]
    with use_lowering(lowering), pytest.raises(ValueError, match="must be a vector"):
        call(tf.constant(argument)[tf.newaxis])


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
