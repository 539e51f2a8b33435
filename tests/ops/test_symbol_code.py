"""Codes of symbols on tensors: op and reference agree, and refuse the same codes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import kernels, ops


def packed(symbols, bits):
    lowest_first = np.uint8(symbols)[:, np.newaxis] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(lowest_first.ravel(), bitorder="little")


@st.composite
def cases(draw):
    """Packed symbols with few distinct values, their number and their bit width."""
    bits = draw(st.integers(1, 8))
    few = draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=3))
    symbols = draw(hnp.arrays(np.uint8, st.integers(0, 90), elements=st.sampled_from(few)))
    return packed(symbols, bits), len(symbols), bits


@settings(deadline=None)
@given(case=cases())
def test_codes_are_those_of_the_kernel_and_come_back(lowering, case):
    data, count, bits = case
    code = ops.encode_symbols(data, count, bits=bits, lowering=lowering)
    assert code.numpy().tobytes() == kernels.encode_symbols(data, count, bits=bits).tobytes()
    got = ops.decode_symbols(code, count, bits=bits, lowering=lowering)
    assert got.numpy().tobytes() == data.tobytes()


@settings(deadline=None)
@given(case=cases(), data=st.data())
def test_op_and_reference_refuse_the_same_codes_and_agree_on_the_rest(agree, case, data):
    symbols, count, bits = case
    code = bytearray(np.asarray(ops.encode_symbols(symbols, count, bits=bits)))
    assume(len(code) > 0)
    for _ in range(data.draw(st.integers(0, 2))):
        bit = data.draw(st.integers(0, 8 * len(code) - 1))
        code[bit // 8] ^= 1 << bit % 8
    code = code[: data.draw(st.sampled_from([len(code), len(code), len(code) - 1]))]
    code += data.draw(st.sampled_from([b"", b"", b"\0", b"\0\1"]))
    count += data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    agree(ops.decode_symbols, np.frombuffer(bytes(code), np.uint8), count, bits=bits)
    agree(ops.encode_symbols, symbols, count, bits=bits)


def test_many_symbols_which_use_more_lanes_have_the_code_of_the_kernel(lowering):
    count = 65_541
    data = packed(np.arange(count) % 5 // 3, 3)

    @tf.function(autograph=False)
    def there_and_back(data):
        code = ops.encode_symbols(data, count, bits=3, lowering=lowering)
        return code, ops.decode_symbols(code, count, bits=3, lowering=lowering)

    code, back = there_and_back(data)
    assert code.numpy().tobytes() == kernels.encode_symbols(data, count, bits=3).tobytes()
    assert back.numpy().tobytes() == data.tobytes()


def test_packed_symbols_are_counted_before_memory_is_taken_for_them(lowering):
    with pytest.raises(tf.errors.InvalidArgumentError, match="symbols"):
        ops.decode_symbols(np.zeros(3, np.uint8), 2**31 - 1, bits=1, lowering=lowering)


def test_impossible_bits_are_refused_while_building(lowering):
    with pytest.raises(ValueError, match="bits is 9"):
        ops.decode_symbols(tf.zeros([1], tf.uint8), 1, bits=9, lowering=lowering)
