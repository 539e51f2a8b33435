"""Tests QSGD with a mean bit width over several tensors: how bits are allocated, written and read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.encoders import ModelEncoder, Pipeline
from fedplug.encoders.quantizers import QSGD, MixedQSGD, share_out
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.lowering import use_lowering
from fedplug.ops.types import ArraySpec
from fedplug.testing import executions

HEADER = 5 + 2 + 2
GAINS = [9.0, 4.0, 1.0]


def error_taken_away(extra, sizes, energies):
    """The error that ``extra`` bits per tensor remove; a tensor's first elements get the remainder."""
    taken = 0.0
    for bits, size, energy in zip(extra, sizes, energies, strict=True):
        whole, rest = divmod(bits, size) if size else (0, 0)
        taken += energy * (size * sum(GAINS[:whole]) + (rest and rest * GAINS[whole]))
    return taken


@settings(deadline=None)
@given(
    tensors=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 1.0, 2.0, 30.0])), min_size=1),
    total=st.integers(0, 100),
)
def test_no_other_way_to_share_bits_out_takes_more_of_the_error_away(tensors, total):
    sizes, energies = zip(*tensors, strict=True)
    shared = share_out(np.int64(total), sizes, [np.float64(e) for e in energies], GAINS)
    extra = [int(bits) for bits in shared]
    assert sum(extra) == min(total, len(GAINS) * sum(sizes))
    assert all(0 <= bits <= len(GAINS) * size for bits, size in zip(extra, sizes, strict=True))
    # Gains fall, so the greedy choice over single bits of all elements is optimal.
    one_by_one = sorted((e * g for n, e in tensors for g in GAINS for _ in range(n)), reverse=True)
    assert error_taken_away(extra, sizes, energies) == pytest.approx(sum(one_by_one[:total]))


def tensors_of_different_scale(seed=0):
    rng = np.random.default_rng(seed)
    return [
        (scale * rng.normal(size=shape)).astype(np.float32)
        for scale, shape in [(1.0, [700]), (0.02, [30, 40]), (5.0, [64]), (0.0, [512])]
    ]


def sent(encoder, xs, rate=None):
    """The bytes of each body, and the total error."""
    model = ModelEncoder(encoder, [ArraySpec(x.shape, x.dtype) for x in xs], min_size=0)
    adjusted = encoder if rate is None else encoder.at_rate(np.float32(rate))
    encoded = adjusted.grouped_encode(xs, [{}] * len(xs), 3)
    bodies = [encoder.to_wire(payload, spec) for (payload, _), spec in zip(encoded, model.specs, strict=True)]
    decoded = [
        encoder.decode(encoder.from_wire(body, spec), spec)
        for body, spec in zip(bodies, model.specs, strict=True)
    ]
    error = sum(np.sum((x - y) ** 2) for x, y in zip(xs, decoded, strict=True))
    return bodies, error


@pytest.mark.parametrize(("rate", "bits"), [(1.0, 4), (0.7, 2.8), (1.21, 4.84), (0.01, 2), (100.0, 8)])
def test_the_bits_are_spent_to_the_last_one(rate, bits):
    xs = tensors_of_different_scale()
    bodies, _ = sent(MixedQSGD(4, block_size=2**20), xs, rate)
    scales = sum(4 * (1 + (int.from_bytes(body[1:5].tobytes(), "little") > 0)) for body in bodies)
    elements = sum(x.size for x in xs)
    levels = sum(map(len, bodies)) - HEADER * len(xs) - scales
    assert levels == pytest.approx(elements * bits / 8, abs=len(xs) + 1)


def test_the_error_is_far_below_that_of_the_same_bits_everywhere():
    xs = tensors_of_different_scale()
    mixed, mixed_error = sent(MixedQSGD(4), xs)
    everywhere, error = sent(Pipeline([QSGD(4)]), xs)
    assert sum(map(len, mixed)) <= sum(map(len, everywhere)) + (HEADER + 4) * len(xs)
    assert mixed_error < error / 3


@pytest.mark.needs("tensorflow")
def test_compiled_ops_and_their_references_share_out_alike():
    (on,) = executions.installed(("tensorflow",))
    xs, encoder = tensors_of_different_scale(), MixedQSGD(4.4, block_size=64)
    for lowering in ("fused", "reference"):
        with use_lowering(lowering):
            found = encoder.grouped_encode([on.array(x) for x in xs], [{}] * len(xs), on.round_num(3))
            for x, (payload, _), body in zip(xs, found, sent(encoder, xs)[0], strict=True):
                np.testing.assert_array_equal(encoder.to_wire(payload, on.spec(x.shape, "float32")), body)


def test_a_tensor_without_elements_beside_others():
    bodies, _ = sent(MixedQSGD(3), [np.zeros(0, np.float32), np.ones(80, np.float32)])
    assert [len(body) for body in bodies] == [HEADER, HEADER + 4 + 80 * 3 // 8]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ([1, 0, 0, 0, 0], "header of a mixed qsgd payload is wrong"),
        ([9, 0, 0, 0, 0], "header of a mixed qsgd payload is wrong"),
        ([3, 6, 0, 0, 0], "header of a mixed qsgd payload is wrong"),
        ([3, 0, 0, 0, 128], "header of a mixed qsgd payload is wrong"),
        ([8, 1, 0, 0, 0], "header of a mixed qsgd payload is wrong"),
        ([3, 1], "too short to hold its header"),
    ],
)
def test_a_header_that_is_none_is_refused(header, message):
    with pytest.raises(PayloadError, match=message):
        MixedQSGD(3).from_wire(np.uint8(header), ArraySpec((6,), np.dtype("float32")))


@pytest.mark.parametrize("bits", [1.9, 8.1, "linear(4, 1, 3)"])
def test_a_mean_out_of_range_is_refused(bits):
    with pytest.raises(ConfigError, match=r"mixed_qsgd bits is .*; it must be a number from 2 to 8"):
        MixedQSGD(bits)
