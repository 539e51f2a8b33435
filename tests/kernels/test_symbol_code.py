"""The codes of packed symbols: round trips, layout, lengths and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedplug import errors, kernels


def packed(symbols, bits):
    lowest_first = np.uint8(symbols)[:, np.newaxis] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(lowest_first.ravel(), bitorder="little")


def unpacked(data, count, bits):
    lowest_first = np.unpackbits(data, bitorder="little")[: count * bits].reshape(count, bits)
    return (lowest_first << np.arange(bits, dtype=np.uint8)).sum(axis=1).tolist()


def encode(symbols, bits):
    return kernels.encode_symbols(packed(symbols, bits), len(symbols), bits=bits)


def decode(code, count, bits):
    return unpacked(kernels.decode_symbols(code, count, bits=bits), count, bits)


def levels(count, bits, spread, seed=0):
    """Levels of a quantizer of normally distributed values."""
    top = 2**bits - 1
    normal = np.random.default_rng(seed).normal(top / 2, spread, count)
    return np.clip(np.rint(normal), 0, top).astype(np.uint8)


@st.composite
def cases(draw):
    bits = draw(st.integers(1, 8))
    largest = draw(st.integers(0, 2**bits - 1))
    return draw(hnp.arrays(np.uint8, st.integers(0, 300), elements=st.integers(0, largest))), bits


@given(cases())
@settings(deadline=None, max_examples=200)
def test_a_code_decodes_to_the_symbols_it_was_made_of(case):
    symbols, bits = case
    code = encode(symbols, bits)
    assert code.dtype == np.uint8
    assert len(code) <= 1 + len(packed(symbols, bits))
    assert decode(code, len(symbols), bits) == symbols.tolist()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("spread", [0.3, 2.0, 41.0])
def test_a_code_takes_one_percent_more_than_the_entropy_at_most(bits, spread):
    symbols = levels(1_000_000, bits, spread)
    share = np.bincount(symbols)[np.unique(symbols)] / symbols.size
    entropy = -symbols.size * np.sum(share * np.log2(share))
    assert 8 * len(encode(symbols, bits)) < 1.01 * min(entropy, symbols.size * bits)


# 200 ones of one bit: the bar of the frequencies 0 and 4096 is at 0, whose Rice code is the parameter 0 and
# a one bit. The states stay where they began.
OF_ONES = [2, 0, 1, *[0, 0, 1, 0] * 4]


def test_a_code_has_the_layout_of_the_specification():
    assert encode([], 3).tolist() == [0]
    assert encode([1, 2, 3], 2).tolist() == [0, 0b111001]
    assert encode([1] * 200, 1).tolist() == OF_ONES


@pytest.mark.parametrize(
    ("code", "count", "bits", "message"),
    [
        ([], 2, 4, "it is empty"),
        ([0, 1, 2], 2, 4, "2 symbols take 1 bytes when packed, not 2"),
        ([0, 0x10], 1, 4, "bits are set after its last symbol"),
        ([2, 0, 1, 0], 200, 1, "4 bytes are not frequencies, states and words for 200 symbols"),
        (
            [2, 31, *OF_ONES[2:]],
            200,
            1,
            "its frequencies are no index code: its parameter is 31, and the larg",
        ),
        ([*OF_ONES[:5], 0, *OF_ONES[6:]], 200, 1, r"a state is below 2\^16"),
        ([*OF_ONES[:5], 2, *OF_ONES[6:]], 200, 1, "it does not end with its symbols"),
        (encode(levels(400, 4, 0.7), 4)[:-2], 400, 4, "its words end before its symbols"),
    ],
)
def test_the_error_of_a_code_names_the_fault(code, count, bits, message):
    with pytest.raises(errors.PayloadError, match=f"symbol code: {message}"):
        decode(np.uint8(code), count, bits)


def test_packed_symbols_are_counted_before_memory_is_taken_for_them():
    with pytest.raises(
        errors.PayloadError, match="2147483647 symbols take 268435456 bytes when packed, not 2"
    ):
        kernels.decode_symbols(np.zeros(3, np.uint8), 2**31 - 1, bits=1)


@pytest.mark.parametrize(
    ("data", "count", "bits", "message"),
    [
        ([0], 1, 9, r"bits = 9 is not in \[1, 8\]"),
        ([], -1, 4, r"count = -1 is not in \[0, 2\^31\)"),
        ([1, 2], 2, 4, "2 packed symbols of 4 bits take 1 bytes, not 2"),
        ([0x10], 1, 4, "bits are set after the last symbol"),
    ],
)
def test_invalid_packed_symbols_are_not_encoded(data, count, bits, message):
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.encode_symbols(np.uint8(data), count, bits=bits)


@pytest.mark.parametrize("bits", [1, 3, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 500, 70_000])
@pytest.mark.parametrize("spread", [0.3, 1e6], ids=["shorter when coded", "not shorter"])
def test_a_container_is_written_at_once_with_the_same_bytes(bits, count, spread):
    head = np.arange(5, dtype=np.uint8)
    symbols = packed(levels(count, bits, spread), bits)
    want = kernels.frame([head, kernels.encode_symbols(symbols, count, bits=bits)], b"header")
    data = np.concatenate([head, symbols])
    assert kernels.frame_symbols(data, 5, count, b"header", bits=bits) == want


def test_no_container_is_written_for_invalid_symbols():
    data = np.zeros(7, np.uint8)
    for start in (-1, 8):
        with pytest.raises(errors.ArgumentError, match=f"start is {start}, and data has 7 bytes"):
            kernels.frame_symbols(data, start, 4, b"header", bits=8)
    with pytest.raises(errors.ArgumentError, match="5 packed symbols of 8 bits take 5 bytes, not 4"):
        kernels.frame_symbols(data, 3, 5, b"header", bits=8)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1023, 1024, 1025, 5000])
def test_packed_symbols_have_no_gaps_and_are_read_back(bits, count):
    symbols = np.random.default_rng(count).integers(0, 2**bits, count).astype(np.uint8)
    data = kernels.pack_symbols(symbols, bits)
    assert data.tobytes() == packed(symbols, bits).tobytes()
    assert kernels.unpack_symbols(data, count, bits).tolist() == symbols.tolist()


@pytest.mark.parametrize("bits", range(1, 8))
def test_a_symbol_with_too_many_bits_is_refused(bits):
    symbols = np.zeros(2000, np.uint8)
    symbols[1500] = 2**bits
    with pytest.raises(errors.ArgumentError, match=f"more than {bits} bits"):
        kernels.pack_symbols(symbols, bits)


def test_bytes_that_are_not_the_packed_symbols_are_refused():
    data = np.zeros(3, np.uint8)
    for count, bits in [(7, 4), (4, 4), (2**30, 1), (0, 3)]:
        with pytest.raises(errors.PayloadError, match="bytes, not 3"):
            kernels.unpack_symbols(data, count, bits)
    with pytest.raises(errors.PayloadError, match="bits are set"):
        kernels.unpack_symbols(np.uint8([0, 0, 16]), 5, 4)


@pytest.mark.parametrize(("count", "bits"), [(-1, 4), (2**31, 1), (6, 0), (3, 9), (6, -4)])
def test_impossible_numbers_of_symbols_and_bits_are_refused(count, bits):
    with pytest.raises(errors.ArgumentError):
        kernels.unpack_symbols(np.zeros(3, np.uint8), count, bits)
