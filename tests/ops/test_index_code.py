"""Codes of indices, and random indices: op and reference give those of the kernel, and refuse the same."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import kernels, ops
from fedplug.errors import LoweringError, UnknownNameError

MAX_SIZE = 2**31 - 1
SIZES = st.one_of(st.integers(0, 300), st.integers(0, MAX_SIZE))


@st.composite
def index_sets(draw):
    size = draw(SIZES)
    indices = draw(st.sets(st.integers(0, size - 1), max_size=60)) if size else set()
    return np.array(sorted(indices), np.int32), size


def as_tensor(code):
    return tf.constant(np.frombuffer(bytes(code), np.uint8))


@pytest.mark.parametrize(("lowering", "form"), [("fused", "rice"), ("reference", "rice"), ("fused", "gaps")])
@settings(deadline=None)
@given(chosen=index_sets())
def test_codes_are_those_of_the_kernel_and_come_back(lowering, form, chosen):
    indices, size = chosen
    code = ops.encode_indices(indices, size, form=form, lowering=lowering)
    assert code.numpy().tobytes() == kernels.encode_indices(indices, size, form=form).tobytes()
    got = ops.decode_indices(code, len(indices), size, form=form, lowering=lowering)
    assert got.numpy().tolist() == indices.tolist()


def test_gaps_have_no_reference():
    with pytest.raises(LoweringError, match=r"index coder 'gaps' .* compiled op.* or use 'rice'"):
        ops.encode_indices([1], 9, form="gaps", lowering="reference")
    with pytest.raises(LoweringError, match="index coder 'gaps'"):
        ops.decode_indices(as_tensor(b"123"), 1, 9, form="gaps", lowering="reference")


@settings(deadline=None)
@given(data=st.data())
def test_op_and_reference_refuse_the_same_codes_and_agree_on_the_rest(agree, data):
    indices, size = data.draw(index_sets())
    code = bytearray(kernels.encode_indices(indices, size))
    count = max(0, len(indices) + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1])))
    for _ in range(data.draw(st.integers(0, 3)) if code else 0):
        bit = data.draw(st.integers(0, 8 * len(code) - 1))
        code[bit // 8] ^= 1 << bit % 8
    code = code[: data.draw(st.sampled_from([len(code), len(code), len(code) - 1]))] if code else code
    code += data.draw(st.sampled_from([b"", b"", b"\0", b"\1"]))
    agree(ops.decode_indices, as_tensor(code), count, size)


@pytest.mark.parametrize("b", [0, 1, 29, 30])
def test_a_gap_too_long_for_any_index_is_refused_whatever_its_parameter(lowering, b):
    low = (2**b - 1).to_bytes((b + 7) // 8, "little")
    code = bytes([b]) + low + bytes(5000) + b"\x80"
    with pytest.raises(tf.errors.InvalidArgumentError, match="index code"):
        ops.decode_indices(as_tensor(code), 1, 30_000, lowering=lowering)


def test_a_few_bytes_cannot_ask_for_gigabytes(lowering):
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        ops.decode_indices(as_tensor(b"\x00\xff\xff"), MAX_SIZE, MAX_SIZE, lowering=lowering)


@pytest.mark.parametrize(
    ("indices", "size"), [([1, 1], 9), ([2, 1], 9), ([9], 9), ([-1], 9), ([0], 0), ([0], -1), ([0], 2**31)]
)
def test_indices_that_do_not_ascend_below_the_size_are_refused(lowering, indices, size):
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.encode_indices(indices, size, lowering=lowering)


def test_an_unknown_form_is_refused_while_building(lowering):
    with pytest.raises(UnknownNameError, match="unknown index code 'ricee' in form; did you mean"):
        ops.encode_indices([1], 9, form="ricee", lowering=lowering)
    with pytest.raises(UnknownNameError, match="unknown index code"):
        ops.decode_indices(tf.zeros([1], tf.uint8), 1, 9, form="", lowering=lowering)


SEEDS = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(seed=SEEDS, count=st.integers(-1, 700), size=st.one_of(st.integers(-1, 700), st.integers(0, 2**31)))
def test_op_and_reference_draw_the_indices_of_the_kernel_or_refuse_alike(agree, seed, count, size):
    agree(ops.draw_indices, seed, count, size)
    if 0 <= count <= size < 2**31:
        drawn = ops.draw_indices(seed, count, size, lowering="fused")
        np.testing.assert_array_equal(drawn, kernels.draw_indices(seed, count, size))


def test_many_indices_are_drawn_by_many_threads_as_by_one():
    threads = kernels.draw_indices(5, 200_000, 2**31 - 1)
    np.testing.assert_array_equal(threads, ops.draw_indices(5, 200_000, 2**31 - 1, lowering="reference"))
