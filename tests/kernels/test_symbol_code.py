"""The rANS code of packed symbols, from Python: read by the layout's words, and held to the entropy."""

from __future__ import annotations

import itertools

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


def entropy(symbols):
    """In bits a symbol."""
    shares = np.unique(symbols, return_counts=True)[1] / len(symbols)
    return -np.sum(shares * np.log2(shares))


def levels(count, bits, spread, seed=0):
    """Like those of a quantizer of normally distributed values."""
    top = 2**bits - 1
    normal = np.random.default_rng(seed).normal(top / 2, spread, count)
    return np.clip(np.rint(normal), 0, top).astype(np.uint8)


def read_as_the_layout_says(code, count, bits):
    """The decoder of the header's text."""
    if code[0] == 0:
        return unpacked(code[1:], count, bits)
    table, rest = code[1 : 1 + code[0]], code[1 + code[0] :].tobytes()
    bars = kernels.decode_indices(table, 2**bits - 1, 4096 + 2**bits - 1).tolist()
    frequencies = np.diff([-1, *bars, 4096 + 2**bits - 1]) - 1
    starts = np.cumsum(frequencies) - frequencies
    lanes = 4 if count < 65536 else 32
    states = [int(x) for x in np.frombuffer(rest[: 4 * lanes], "<u4")]
    words = iter(np.frombuffer(rest[4 * lanes :], "<u2").tolist())
    symbols = []
    for lane in itertools.islice(itertools.cycle(range(lanes)), count):
        x = states[lane]
        s = int(np.flatnonzero((starts <= x % 4096) & (x % 4096 < starts + frequencies))[0])
        x = int(frequencies[s]) * (x // 4096) + x % 4096 - int(starts[s])
        states[lane] = x if x >= 65536 else 65536 * x + next(words)
        symbols.append(s)
    assert list(words) == []
    assert states == [65536] * lanes
    return symbols


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


@pytest.mark.parametrize(
    ("count", "bits", "spread"), [(700, 8, 1), (700, 4, 0.8), (300, 1, 0), (70_000, 3, 0.5)]
)
def test_a_code_is_laid_out_as_specified(count, bits, spread):
    symbols = levels(count, bits, spread)
    code = encode(symbols, bits)
    assert code[0] != 0
    assert read_as_the_layout_says(code, count, bits) == symbols.tolist()


@pytest.mark.parametrize(("bits", "spread"), [(8, 41), (8, 5), (6, 8), (4, 2.3), (4, 0.4), (3, 1), (2, 0.5)])
def test_a_million_symbols_take_at_most_one_percent_more_than_their_entropy(bits, spread):
    symbols = levels(1_000_000, bits, spread)
    assert 8 * len(encode(symbols, bits)) / len(symbols) <= 1.01 * entropy(symbols)


@pytest.mark.parametrize("bits", range(1, 9))
def test_symbols_that_are_all_as_likely_go_as_they_are(bits):
    symbols = np.random.default_rng(0).integers(0, 2**bits, 10_000)
    code = encode(symbols, bits)
    assert bytes(code) == b"\0" + bytes(packed(symbols, bits))


def test_equal_symbols_take_a_few_bytes_however_many_they_are():
    assert len(encode(np.full(60_000, 3), 4)) <= 40


def test_the_symbols_of_quantized_values_are_shorter_by_what_the_entropy_says():
    values = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    data = kernels.encode_values(values, "qsgd", bits=4, block_size=512)
    symbols = data[-500_000:]
    code = kernels.encode_symbols(symbols, 1_000_000, bits=4)
    assert len(code) <= 1.01 * entropy(unpacked(symbols, 1_000_000, 4)) * 1_000_000 / 8


@given(st.binary(max_size=60), st.integers(0, 40), st.integers(1, 8))
@settings(deadline=None, max_examples=300)
def test_random_bytes_are_refused_or_decode_to_so_many_symbols(code, count, bits):
    try:
        symbols = decode(np.frombuffer(code, np.uint8), count, bits)
    except errors.PayloadError:
        return
    assert decode(encode(symbols, bits), count, bits) == symbols


def test_a_damaged_code_is_refused_or_decodes_to_other_symbols():
    symbols = levels(500, 4, 0.6)
    code = encode(symbols, 4)
    refused = 0
    for bit in range(8 * len(code)):
        flipped = code.copy()
        flipped[bit // 8] ^= 1 << (bit % 8)
        try:
            assert len(decode(flipped, 500, 4)) == 500
        except errors.PayloadError:
            refused += 1
    assert refused >= 0.9 * 8 * len(code)


def test_a_truncated_code_is_refused():
    code = encode(levels(500, 4, 0.6), 4)
    for length in range(len(code)):
        with pytest.raises(errors.PayloadError, match="symbol code"):
            kernels.decode_symbols(code[:length], 500, bits=4)


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
def test_what_is_not_packed_symbols_is_not_encoded(data, count, bits, message):
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.encode_symbols(np.uint8(data), count, bits=bits)
