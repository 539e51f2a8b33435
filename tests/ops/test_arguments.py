"""The check of whole numbers that all ops share: counts, indices, bits, sizes and seeds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug import ops
from fedplug.errors import ArgumentError, DTypeError

X, ZEROS = np.float32([0.625, -5, 2, 0.5, 3, 1, -1, 4]), np.zeros(8, np.float32)
BYTES = np.zeros(8, np.uint8)
PLACES = np.int32([1, 3])

# name of the argument, and a call with a value for it; `a` makes an array or a tensor.
WHOLE = {
    "topk_residual, k": lambda a, v: ops.topk_residual(a(X), a(ZEROS), v),
    "grouped_topk_residual, k": lambda a, v: ops.grouped_topk_residual([a(X)], [a(ZEROS)], v),
    "scatter_decode, size": lambda a, v: ops.scatter_decode(v, a(X[:2]), a(PLACES)),
    "encode_indices, size": lambda a, v: ops.encode_indices(a(PLACES), v),
    "decode_indices, count": lambda a, v: ops.decode_indices(a(BYTES), v, 8),
    "decode_indices, size": lambda a, v: ops.decode_indices(a(BYTES), 2, v),
    "encode_values, bits": lambda a, v: ops.encode_values(a(X), "qsgd", bits=v),
    "encode_values, seed": lambda a, v: ops.encode_values(a(X), "qsgd", seed=v),
    "decode_values, count": lambda a, v: ops.decode_values(a(BYTES), v, "sign", dtype="float32"),
    "decode_values, bits": lambda a, v: ops.decode_values(a(BYTES), 4, "qsgd", dtype="float32", bits=v),
    "encode_symbols, count": lambda a, v: ops.encode_symbols(a(BYTES), v, bits=8),
    "encode_symbols, bits": lambda a, v: ops.encode_symbols(a(BYTES), 8, bits=v),
    "decode_symbols, count": lambda a, v: ops.decode_symbols(a(BYTES), v, bits=8),
    "decode_symbols, bits": lambda a, v: ops.decode_symbols(a(BYTES), 7, bits=v),
    "sparse_body, count": lambda a, v: ops.sparse_body(v, a(BYTES), a(BYTES)),
    "split_sparse_body, size": lambda a, v: ops.split_sparse_body(a(BYTES), v),
    "finite_from_bytes, count": lambda a, v: ops.finite_from_bytes(a(BYTES), v, "float32"),
    "unpack, count": lambda a, v: ops.unpack(a(BYTES), v, 8, "bytes"),
    "unpack, bits": lambda a, v: ops.unpack(a(BYTES), 8, v, "bytes"),
    "pack, bits": lambda a, v: ops.pack(a(BYTES), v),
    "of_length, length": lambda a, v: ops.of_length(a(BYTES), v, "bytes"),
    "symbol_bits, count": lambda a, v: ops.symbol_bits(a(BYTES), v, 4),
    "dither, seed": lambda a, v: ops.dither(a(X), v),
    "draw_indices, seed": lambda a, v: ops.draw_indices(v, a(np.int64(2)), 8),
    "draw_indices, count": lambda a, v: ops.draw_indices(a(np.int64(1)), v, 8),
    "draw_indices, size": lambda a, v: ops.draw_indices(1, a(np.int64(2)), v),
    "round_seed, seed": lambda a, v: ops.round_seed(v, a(np.int64(1))),
    "round_seed, round_num": lambda a, v: ops.round_seed(a(np.int64(1)), v),
    "random_words, count": lambda a, v: ops.random_words(v, a(np.int64(1)), 2),
    "random_words, first": lambda a, v: ops.random_words(a(np.int64(1)), v, 2),
    "shared_uniform, count": lambda a, v: ops.shared_uniform(v, a(np.int64(1))),
    "shared_uniform, seed": lambda a, v: ops.shared_uniform(a(np.int64(1)), v),
    "packed_size, count": lambda a, v: ops.packed_size(v, a(np.int64(4))),
    "block_count, count": lambda a, v: ops.block_count(v, a(np.int64(4))),
    "subset_bits, count": lambda a, v: ops.subset_bits(v, a(np.int64(8))),
    "table_lookup, position": lambda a, v: ops.table_lookup([1.0, 2.0], v, "float32"),
    "arange, end": lambda a, v: ops.arange(v),
}
STATIC = {
    "encode_values, block_size": lambda a, v: ops.encode_values(a(X), "qsgd", block_size=v),
    "decode_values, block_size": lambda a, v: ops.decode_values(
        a(BYTES), 4, "qsgd", dtype="float32", block_size=v
    ),
    "block_scales, size": lambda a, v: ops.block_scales(a(X), v),
    "symbol_bits, bits": lambda a, v: ops.symbol_bits(a(BYTES), 8, v),
    "repeat, times": lambda a, v: ops.repeat(a(X), v),
    "segment_sum, count": lambda a, v: ops.segment_sum(a(PLACES), a(PLACES), v),
}
INDICES = {
    "scatter_decode, indices": lambda a, v: ops.scatter_decode(8, a(X[:2]), v),
    "scatter_decode_add, indices": lambda a, v: ops.scatter_decode_add(a(ZEROS), a(X[:2]), v),
    "scatter_decode, row_splits": lambda a, v: ops.scatter_decode(8, a(X[:2]), a(PLACES), v),
    "take_from_sum, indices": lambda a, v: ops.take_from_sum(a(X), a(ZEROS), v),
    "encode_indices, indices": lambda a, v: ops.encode_indices(v, a(np.int64(8))),
    "take, indices": lambda a, v: ops.take(a(X), v),
    "segment_sum, segments": lambda a, v: ops.segment_sum(a(PLACES), v, 8),
}
KINDS = {"arrays": np.asarray, "tensors": tf.constant}


def refuses(error, call, argument):
    """Asserts that a call names its argument and shows no array."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert argument in text or argument == "end"
    assert not any(part in text for part in ("0.625", "array(", "numpy="))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*WHOLE, *STATIC])
def test_a_number_that_is_not_whole_is_refused(name, kind):
    call = (WHOLE | STATIC)[name]
    for value in (0.01, 2.0, np.float32(20.7), np.float64("nan"), "5", True, np.True_, None, 1j, [2.5]):
        refuses(DTypeError, lambda value=value: call(KINDS[kind], value), name.split(", ")[1])


@pytest.mark.parametrize("name", WHOLE)
def test_a_tensor_that_is_not_of_integers_is_refused(name, lowering):
    with ops.lowering.use_lowering(lowering):
        for value in (tf.constant(2.0), tf.constant(2.5, tf.float64), tf.constant(True)):
            refuses(TypeError, lambda value=value: WHOLE[name](tf.constant, value), name.split(", ")[1])


@pytest.mark.parametrize("name", [*WHOLE, *STATIC])
def test_a_graph_does_not_cut_a_number_while_it_is_built(name):
    traced = tf.function(lambda: (WHOLE | STATIC)[name](tf.constant, np.float32(20.7)), autograph=False)
    refuses(DTypeError, traced, name.split(", ")[1])
    traced = tf.function(lambda value: (WHOLE | STATIC)[name](tf.constant, value), autograph=False)
    refuses(TypeError, lambda: traced(tf.constant(2.7)), name.split(", ")[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*WHOLE, *STATIC])
def test_a_number_of_more_than_64_bits_is_refused(name, kind):
    call = (WHOLE | STATIC)[name]
    for value in (2**70, -(2**70), 10**5000):
        refuses(ArgumentError, lambda value=value: call(KINDS[kind], value), name.split(", ")[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INDICES)
def test_indices_that_are_not_whole_are_refused(name, kind):
    floats, texts = np.float64([1, 3]), np.array(["1", "3"])
    for values in ([0.5, 3.7], floats, floats > 1, ["1", "3"], texts):
        refuses(DTypeError, lambda values=values: INDICES[name](KINDS[kind], values), name.split(", ")[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INDICES)
def test_indices_are_never_wrapped(name, kind):
    for values in ([1, 2**32 + 3], [-1, 3], [1, 2**63], np.array([1, 2**32 + 3])):
        with pytest.raises((ArgumentError, tf.errors.InvalidArgumentError)):
            INDICES[name](KINDS[kind], values)


@pytest.mark.parametrize("name", [name for name in INDICES if "row_splits" not in name])
def test_wide_tensors_of_indices_are_refused_and_never_wrapped(name):
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        INDICES[name](tf.constant, tf.constant([1, 2**32 + 3], tf.int64))


@pytest.mark.parametrize("name", WHOLE)
def test_integers_of_any_width_are_accepted(name):
    def outcome(value):
        try:
            found = WHOLE[name](np.asarray, value)
        except ValueError as error:  # not all of these calls are valid, but all are treated alike
            return str(error)
        return [np.asarray(part).tobytes() for part in tf.nest.flatten(found)]

    for value in (np.int8(2), np.uint64(2), np.array(2, np.int16)):
        assert outcome(value) == outcome(2)


def test_a_seed_beyond_32_bits_is_not_that_of_another_one():
    for seed, round_num in [(2**32 + 3, 0), (3, 2**32)]:
        with pytest.raises(ArgumentError, match="is 429"):
            ops.round_seed(seed, round_num)
        with pytest.raises(tf.errors.InvalidArgumentError, match="32 bits"):
            ops.round_seed(tf.constant(seed), tf.constant(round_num, tf.int64))


def test_bytes_are_never_wrapped():
    for data in ([1, 300], [-1], np.int64([256])):
        with pytest.raises(ArgumentError, match="data holds"):
            ops.crc32(data)
    with pytest.raises(DTypeError, match="data has dtype float32"):
        ops.crc32(X)
    with pytest.raises(TypeError, match="data has dtype float32"):
        ops.crc32(tf.constant(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["0.5", None, 1j, True], ids=repr)
def test_factors_must_be_numbers(kind, value):
    a = KINDS[kind]
    refuses(DTypeError, lambda: ops.encode_values(a(X), "bounded", relative=value), "relative")


def test_a_residual_of_another_dtype_is_refused_without_its_contents():
    for other in (X.astype(np.float64), X.astype(np.float16)):
        refuses(DTypeError, lambda other=other: ops.topk_residual(X, other, 1), "residual")
        tensors = tf.constant(X), tf.constant(other)
        refuses(DTypeError, lambda tensors=tensors: ops.topk_residual(*tensors, 1), "residual")
