"""The difference code against a slow reader of its layout, and its length beside the entropy."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import errors, kernels

LAYOUTS = {"bfloat16": (2, 7), "float16": (2, 10), "float32": (4, 23), "float64": (8, 52), "int32": (4, 31)}


class Reader:
    """Numbers and parts, as docs/wire-format.md describes them."""

    def __init__(self, code):
        self.code = bytes(code)

    def byte(self):
        first, self.code = self.code[0], self.code[1:]
        return first

    def number(self):
        low = self.byte()
        return low & 127 | (self.number() << 7 if low >= 128 else 0)

    def part(self):
        size = self.number()
        part, self.code = self.code[:size], self.code[size:]
        return np.frombuffer(part, np.uint8)


def bits_of(data):
    return np.unpackbits(data, bitorder="little").astype(object)


def places_of(reader, count, members):
    if count == members:
        return list(range(members))
    form, part = reader.byte(), reader.part()
    if form == 0:
        return kernels.decode_indices(part, count, members).tolist()
    size = -(-members // 8)
    bitmap = kernels.decode_symbols(part, size * 8 // form, bits=form)
    return np.flatnonzero(bits_of(bitmap)).tolist()


def steps_of(reader, count, width):
    bits = reader.byte()
    packed = bits_of(kernels.decode_symbols(reader.part(), count, bits=bits))
    low = bits_of(reader.part()).tolist()
    leading = 1 if width == 64 else 2
    for i in range(count):
        symbol = sum(bit << j for j, bit in enumerate(packed[i * bits : (i + 1) * bits].tolist()))
        place = symbol // 2 + 1
        lows = max(0, (place >> leading) - 1)
        magnitude = (place - (lows << leading)) << lows
        magnitude |= sum(low.pop(0) << j for j in range(lows))
        yield -magnitude if symbol % 2 else magnitude


def decoded(code, before, layout):
    """One segment of changes, element by element."""
    item_bytes, mantissa = layout
    outer = Reader(code)
    reader = Reader(outer.part())
    assert (outer.code, reader.byte()) == (b"", 1)
    words = before.view(f"<u{item_bytes}").tolist()
    exponents = 2 ** min(8, 8 * item_bytes - 1 - mantissa)
    of = [word >> mantissa & exponents - 1 for word in words]
    first, result = 0, list(words)
    classes = [tuple(reader.number() for _ in range(3)) for _ in range(reader.number())]
    for count, size, changed in classes:
        members = [i for i, exponent in enumerate(of) if first <= exponent < first + count]
        assert len(members) == size
        first += count
        if changed:
            places = places_of(reader, changed, size)
            for place, step in zip(places, steps_of(reader, changed, 8 * item_bytes), strict=True):
                result[members[place]] = (words[members[place]] + step) % 2 ** (8 * item_bytes)
    assert reader.code == b""
    return np.array(result, f"<u{item_bytes}").view(np.uint8)


def version(n, layout, changed, seed=0):
    """Words of random floats of many magnitudes, and others a few units away."""
    rng = np.random.default_rng(seed)
    word = np.dtype(f"<u{layout[0]}")
    before = (rng.normal(size=n) * 2.0 ** rng.integers(-30, 3, n)).astype("<f8").view("<u8")
    before = (before >> (64 - 8 * layout[0])).astype(word)
    steps = np.rint(rng.normal(size=n) * 2.0 ** rng.integers(0, 6, n)).astype("<i8").astype(word)
    after = np.where(rng.random(n) < changed, before + steps, before)
    return before.view(np.uint8), after.view(np.uint8)


@pytest.mark.parametrize("changed", [0.002, 0.05, 0.6, 1.0])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_is_the_one_in_the_header(layout, changed):
    before, after = version(3000, layout, changed)
    code = kernels.encode_difference(before, after, *layout)
    np.testing.assert_array_equal(decoded(code, before, layout), after)
    out = np.empty_like(after)
    kernels.decode_difference(code, before, out, *layout)
    np.testing.assert_array_equal(out, after)


def entropy(counts):
    counts = np.asarray(counts, float)[np.asarray(counts) > 0]
    return -np.sum(counts * np.log2(counts / counts.sum()))


@pytest.mark.parametrize("rate", [3e-7, 2e-6, 1e-5])
def test_little_change_takes_the_entropy_given_the_old_exponents(rate):
    rng = np.random.default_rng(1)
    exact = rng.normal(size=1 << 22).astype(np.float32) * np.float32(0.02)
    as_words = [
        ((each.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
        for each in (exact, exact + rng.normal(size=exact.size).astype(np.float32) * np.float32(rate))
    ]
    old, new = as_words
    changed, exponent, step = old != new, old >> 7 & 255, (new.astype(int) - old)
    bound = 0.0
    for e in np.unique(exponent):
        of = exponent == e
        bound += entropy([np.sum(of & changed), np.sum(of & ~changed)])
        bound += entropy(np.unique(step[of & changed], return_counts=True)[1])
    code = kernels.encode_difference(old.view(np.uint8), new.view(np.uint8), 2, 7)
    assert 8 * code.size < 1.05 * bound


def test_another_version_is_a_few_bytes_longer_at_most():
    rng = np.random.default_rng(2)
    before, after = rng.integers(0, 256, (2, 80000)).astype(np.uint8)
    for layout in LAYOUTS.values():
        for base in (before, None):
            assert kernels.encode_difference(base, after, *layout).size <= after.size + 40


def test_errors_name_the_argument():
    some = np.zeros(8, np.uint8)
    with pytest.raises(errors.ArgumentError, match="before has 4 elements and after has 8"):
        kernels.encode_difference(some[:4], some, 2, 7)
    with pytest.raises(errors.ArgumentError, match="elements of 3 bytes"):
        kernels.encode_difference(some, some, 3, 7)
    with pytest.raises(errors.ArgumentError, match="after has 7 bytes"):
        kernels.encode_difference(None, some[:7], 2, 7)
    code = kernels.encode_difference(some, some, 2, 7)
    with pytest.raises(errors.ArgumentError, match="before and out share memory"):
        kernels.decode_difference(code, some, some, 2, 7)
    with pytest.raises(errors.PayloadError, match="difference code"):
        kernels.decode_difference(code[:-1], some, np.zeros(8, np.uint8), 2, 7)
