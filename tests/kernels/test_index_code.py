"""The codes of indices against slow readings of their layouts, and the checksum."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

MAX_SIZE = 2**31 - 1


ONE = 2**30


class _Model:
    def __init__(self, count, size):
        q = (size - count) * ONE // size
        u = [ONE]
        for _ in range(31):
            u.append(u[-1] ** 2 // ONE * q // ONE)
        u.append(0)
        first = [2**15] * 128
        for level in range(5):
            for node in range(2**level):
                a, b = (32 >> level) * node, (32 >> level) * (node + 1)
                first[2**level + node] = _share(u[(a + b) // 2] - u[b], u[a] - u[b])
        for e in range(1, 32):
            middle = u[e] * (u[e - 1] * q // ONE) // ONE
            first[32 + e] = _share(max(0, middle - u[e + 1]), u[e] - u[e + 1])
        self.estimates = {shift: list(first) for shift in (4, 7)}

    def share(self, context, bit):
        """Returns start and frequency of a bit, and learns the bit."""
        p = min(4064, max(32, sum(estimate[context] for estimate in self.estimates.values()) // 32))
        for shift, estimate in self.estimates.items():
            now = estimate[context]
            estimate[context] += (2**16 - now >> shift) if bit else -(now >> shift)
        return (0, p) if bit else (p, 4096 - p)


def _share(part, whole):
    return min(65024, max(512, part * 2**16 // whole if whole else 2**15))


def _shares(indices, size):
    model, previous = _Model(len(indices), size), -1
    for index in indices:
        m, previous = int(index) - previous, int(index)
        e, node, so_far = m.bit_length() - 1, 1, 0
        for width in (16, 8, 4, 2, 1):
            bit = e // width % 2
            if 2 ** (so_far + width) <= size:
                yield model.share(node, bit)
            node, so_far = 2 * node + bit, so_far + width * bit
        rest = bin(m)[3:]
        if rest:
            yield model.share(32 + e, int(rest[0]))
        if rest[1:]:
            yield model.share(64 + 2 * e + int(rest[0]), int(rest[1]))
        for at in range(2, len(rest), 8):
            part = rest[at : at + 8]
            yield int(part, 2) << 12 - len(part), 1 << 12 - len(part)


def gap_code(indices, size):
    """The code "gaps" as docs/wire-format.md specifies it, with Python integers."""
    if len(indices) == 0:
        return b""
    x, taken_in = 2**16, []
    for start, frequency in reversed(list(_shares(indices, size))):
        # Inverts a decoding step, which reads a byte when the state falls below 2^16.
        while x >= frequency << 12:
            taken_in.append(x % 256)
            x //= 256
        x = x // frequency * 4096 + x % frequency + start
    return x.to_bytes(3, "little") + bytes(reversed(taken_in))


def packed(bits):
    return sum(bit << place for place, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "little")


def rice_code(indices):
    """The code "rice" as docs/wire-format.md specifies it."""
    gaps = [int(b) - int(a) - 1 for a, b in zip([-1, *indices], indices, strict=False)]
    b = min(range(31), key=lambda b: (len(gaps) * (b + 1) + sum(gap >> b for gap in gaps), b))
    low = [gap >> place & 1 for gap in gaps for place in range(b)]
    unary = [bit for gap in gaps for bit in [0] * (gap >> b) + [1]]
    return bytes([b]) + packed(low) + packed(unary) if gaps else b""


@st.composite
def index_sets(draw):
    size = draw(st.one_of(st.integers(0, 300), st.integers(0, MAX_SIZE)))
    indices = draw(st.sets(st.integers(0, size - 1), max_size=60)) if size else set()
    return np.array(sorted(indices), np.int32), size


@settings(max_examples=200)
@given(index_sets())
@example((np.int32([MAX_SIZE - 1]), MAX_SIZE))
def test_every_form_is_laid_out_as_specified_and_comes_back(chosen):
    indices, size = chosen
    for form, wanted in (("rice", rice_code(indices)), ("gaps", gap_code(indices, size))):
        code = kernels.encode_indices(indices, size, form=form)
        assert code.tobytes() == wanted
        code.flags.writeable = False
        found = kernels.decode_indices(code, len(indices), size, form=form)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, indices)


@pytest.mark.parametrize(
    ("code", "count", "size", "message"),
    [
        ([31, 0, 0, 0, 0, 1], 1, 9, "its parameter is 31, and the largest one is 30"),
        ([0, 0b1001], 3, 9, "it ends after 2 of 3 indices"),
        ([0, 0b101], 2, 2, "index 1 is not below 2"),
        ([0, 0b1111], 2, 9, "the padding at its end is not zero"),
        ([1, 0b1000, 0b11], 2, 9, "the padding after the low bits is not zero"),
        ([0, 0b11, 0], 2, 9, "1 bytes follow its end"),
        ([1, 0b00, 0b11], 2, 9, "its parameter 1 is not the one that makes it shortest"),
        ([], 2, 9, "0 bytes cannot hold 2 indices below 9"),
        ([0], 2, 9, "1 bytes cannot hold 2 indices"),
        ([7], 0, 9, "1 bytes where no index was announced"),
    ],
)
def test_the_error_of_a_code_names_the_fault(code, count, size, message):
    with pytest.raises(errors.PayloadError, match=f"index code: {message}"):
        kernels.decode_indices(np.uint8(code), count, size)


@pytest.mark.parametrize("density", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_rice_code_is_never_much_longer_than_a_bit_per_element(density):
    indices = np.flatnonzero(np.random.default_rng(0).random(50_000) < density).astype(np.int32)
    assert len(kernels.encode_indices(indices, 50_000)) <= 50_000 // 8 + 3


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(errors.ArgumentError, match="form is 'rise'; it must be rice"):
        kernels.encode_indices(np.int32([1]), 9, form="rise")
    with pytest.raises(errors.ArgumentError, match="form is 'rise'; it must be rice"):
        kernels.decode_indices(np.uint8([1]), 1, 9, form="rise")


def test_a_claim_of_many_indices_is_refused_before_memory_is_taken_for_them():
    with pytest.raises(errors.PayloadError, match="3 bytes cannot hold 2147483647 indices"):
        kernels.decode_indices(np.zeros(3, np.uint8), 2**31 - 1, 2**31 - 1)


@pytest.mark.parametrize(
    ("indices", "size", "message"),
    [
        ([1, 1], 5, r"index 1 at position 1 is not above the one before it \(1\)"),
        ([0, 5], 5, r"index 5 at position 1 is not in \[0, 5\)"),
        ([-2], 5, r"index -2 at position 0 is not in"),
        ([], 2**31, r"size = 2147483648 is not in \[0, 2\^31\)"),
    ],
)
def test_indices_that_are_not_ascending_positions_are_not_encoded(indices, size, message):
    with pytest.raises(errors.ArgumentError, match=message):
        kernels.encode_indices(np.int32(indices), size)


@pytest.mark.parametrize(("count", "size"), [(-1, 5), (6, 5), (1, -1)])
def test_a_count_that_no_set_of_indices_can_have_is_refused(count, size):
    with pytest.raises(errors.ArgumentError, match="is not in"):
        kernels.decode_indices(np.zeros(9, np.uint8), count, size)


@given(st.binary(max_size=100), st.integers(0, 8))
@settings(deadline=None)
def test_the_checksum_is_the_crc32_of_zlib_at_every_alignment(data, shift):
    assert kernels.crc32(data) == zlib.crc32(data)
    assert kernels.crc32(memoryview(data)[shift:]) == zlib.crc32(data[shift:])


def test_the_checksum_takes_the_bytes_of_any_contiguous_array():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert kernels.crc32(array) == zlib.crc32(array.tobytes())
    with pytest.raises(errors.ArgumentError, match="not C-contiguous"):
        kernels.crc32(array[:, ::2])
