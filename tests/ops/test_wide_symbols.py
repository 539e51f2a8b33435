"""Tests the code of symbols of 9 to 16 bits: its size, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug import ops
from fedplug.errors import PayloadError
from fedplug.ops.wide_symbols import join_wide, pack_wide, split_aside, split_wide, unpack_wide

SAMPLES = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "t": lambda rng, n: rng.standard_t(3, n),
    "equal": lambda rng, n: np.zeros(n),
    "uniform": lambda rng, n: rng.uniform(size=n),
}


def packed(name, count, bits):
    x = SAMPLES[name](np.random.default_rng(count), count)
    share = (x - x.min(initial=0)) / max(np.ptp(x) if count else 0, 1e-9) if name != "equal" else x
    return pack_wide(np.clip(share * (2**bits - 1), 0, 2**bits - 1).astype(np.uint16), bits)


@pytest.mark.parametrize(
    ("name", "count", "bits"),
    [("normal", 0, 12), ("uniform", 1, 9), ("t", 11, 16), ("equal", 70_001, 9), ("t", 70_001, 12)],
)
def test_the_parts_are_joined_again(name, count, bits):
    data = packed(name, count, bits)
    aside, symbols = split_wide(data, count, bits)
    rest = np.uint8([7, 8])
    found, code = split_aside(np.concatenate([aside, rest]), count, bits)
    assert (found.tobytes(), code.tobytes()) == (aside.tobytes(), rest.tobytes())
    assert join_wide(aside, symbols, count, bits).tobytes() == data.tobytes()


@pytest.mark.parametrize("name", ["normal", "t"])
@pytest.mark.parametrize("rel", [1e-3, 1e-4])
def test_outliers_do_not_lengthen_the_code_of_the_others(name, rel):
    x = SAMPLES[name](np.random.default_rng(0), 1_000_000).astype(np.float32)
    levels = np.rint((x.astype(np.float64) - x.min()) / (2 * rel * float(np.ptp(x)))).astype(np.int64)
    share = np.unique(levels, return_counts=True)[1] / x.size
    entropy = -(share * np.log2(share)).sum()
    bits = 8 * len(fedplug.codec(f"bounded({rel}) | rans").encode(x)[0]) / x.size
    assert bits < 1.01 * entropy


def test_the_entropy_of_wide_symbols_counts_all_their_bits():
    symbols = np.arange(1024, dtype=np.uint16)
    assert ops.symbol_bits(pack_wide(symbols, 10), 1024, 10) == pytest.approx(10 * 1024)
    assert float(ops.symbol_bits(tf.constant(pack_wide(symbols, 10)), 1024, 10)) == pytest.approx(10 * 1024)


def head(shift, first, number):
    return np.frombuffer(
        bytes([shift]) + first.to_bytes(2, "little") + number.to_bytes(4, "little"), np.uint8
    )


def places(*of):
    return np.array(of, "<u2").view(np.uint8)


@pytest.mark.parametrize(
    ("aside", "found"),
    [
        (head(0, 0, 0)[:6], [0, 0, 0]),
        (head(3, 0, 0), [0, 0, 0]),
        (head(0, 0, 4), [255, 255, 255]),
        (head(0, 0, 1), [255, 0, 0]),
        (head(2, 0, 0), [0, 0, 0]),
        (head(0, 770, 0), [0, 0, 0]),
        (np.concatenate([head(0, 0, 1), places(1024)]), [255, 0, 0]),
        (np.concatenate([head(0, 0, 1), places(1023)]), [0, 0, 0]),
        (head(0, 0, 0), [255, 0, 0]),
        (np.concatenate([head(2, 0, 0), np.uint8([64])]), [0, 0, 0]),
    ],
    ids=[
        "short head",
        "shift",
        "number",
        "short places",
        "short low bits",
        "first",
        "place",
        "places without symbols",
        "symbols without places",
        "unused bits",
    ],
)
def test_bytes_that_are_no_code_are_refused(aside, found):
    with pytest.raises(PayloadError):
        restored(aside, np.uint8(found))


def restored(data, found):
    return join_wide(split_aside(data, 3, 10)[0], found, 3, 10)


def test_a_place_at_each_end_is_read():
    aside = np.concatenate([head(0, 769, 1), places(0)])
    symbols = join_wide(aside, np.uint8([255, 254, 0]), 3, 10)
    assert unpack_wide(symbols, 3, 10).tolist() == [0, 1023, 769]
