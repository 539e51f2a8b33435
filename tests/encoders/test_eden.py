"""Tests EDEN: its levels, rotation, error and bytes."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import ops
from fedplug.encoders import Pipeline
from fedplug.encoders.quantizers.eden import Eden
from fedplug.encoders.quantizers.normal_levels import POSITIVE_LEVELS
from fedplug.errors import ConfigError, PayloadError

ROUND = tf.constant(3)
VNMSE = {1: math.pi / 2 - 1, 2: 0.13312, 3: 0.035784, 4: 0.0095921, 5: 0.0025110}


def spec_of(x):
    return tf.TensorSpec(x.shape, x.dtype)


def round_trip(encoder, x, round_num=ROUND):
    """The bytes on the wire, and the decoded tensor."""

    @tf.function(autograph=False)
    def run(x):
        body = encoder.to_wire(encoder.encode(x, {}, round_num)[0], spec_of(x))
        return body, encoder.decode(encoder.from_wire(body, spec_of(x)), spec_of(x))

    return run(tf.constant(x, tf.float32))


def key_of(code):
    return code.numpy()[1:9].tolist()


def nmse(x, decoded):
    return float(np.sum((x - decoded) ** 2) / np.sum(x**2))


def test_an_entropy_coder_finds_that_levels_are_not_all_as_likely():
    x = np.random.default_rng(0).standard_normal(2**16).astype(np.float32)
    body, decoded = round_trip(Pipeline([Eden(4)]), x)
    shorter, same = round_trip(fedplug.encoder("eden(4) | rans"), x)
    np.testing.assert_array_equal(decoded, same)
    # The entropy of the best 16 levels for normal numbers is 3.765 bits (Max, "Quantizing for minimum
    # distortion", IRE Trans. Inf. Theory 1960, table 1).
    assert 3.74 / 4 < len(shorter) / len(body) < 3.79 / 4


@pytest.mark.parametrize("bits", range(1, 9))
def test_every_level_is_the_mean_of_the_normal_numbers_nearest_to_it(bits):
    normal, levels = NormalDist(), POSITIVE_LEVELS[bits]
    assert 2 * len(levels) == 2**bits
    borders = [0, *((left + right) / 2 for left, right in pairwise(levels)), math.inf]
    for low, high, level in zip(borders[:-1], borders[1:], levels, strict=True):
        density = [0 if math.isinf(border) else normal.pdf(border) for border in (low, high)]
        mass = [0 if math.isinf(border) else math.erfc(border / math.sqrt(2)) / 2 for border in (low, high)]
        assert level == pytest.approx((density[0] - density[1]) / (mass[0] - mass[1]), rel=1e-7)


@settings(deadline=None)
@given(st.integers(0, 2**31 - 2**20))
def test_blocks_are_powers_of_two_and_add_few_elements(count):
    size = int(ops.rotation_block_size(count))
    padding = -count % size
    assert size & (size - 1) == 0
    assert size <= 2**20
    assert padding <= max(count // 32, 127 if count > 128 else size - 1)
    assert size < 2 * max(count, 1)


@pytest.mark.parametrize("bits", VNMSE)
@pytest.mark.parametrize("draw", ["standard_normal", "lognormal", "laplace"])
def test_the_error_is_that_of_the_best_quantizer_for_normal_numbers_whatever_the_input(draw, bits):
    x = getattr(np.random.default_rng(0), draw)(size=2**16).astype(np.float32)
    assert nmse(x, round_trip(Pipeline([Eden(bits)]), x)[1].numpy()) == pytest.approx(VNMSE[bits], rel=0.03)


def test_the_errors_of_many_rounds_average_out():
    x = np.random.default_rng(0).lognormal(size=4096).astype(np.float32)
    eden, rounds = Eden(2), 64
    decoded = tf.function(
        lambda: tf.map_fn(
            lambda r: eden.decode(eden.encode(tf.constant(x), r), tf.size(tf.constant(x)), tf.float32),
            tf.range(rounds),
            fn_output_signature=tf.float32,
        ),
        autograph=False,
    )()
    assert nmse(x, np.mean(decoded, axis=0)) == pytest.approx(VNMSE[2] / rounds, rel=0.15)


def test_clients_rotate_differently_and_rounds_do_too():
    x = np.random.default_rng(0).standard_normal(256).astype(np.float32)
    keys = [key_of(Eden(1).encode(tf.constant(v), r)) for v, r in ((x, 3), (2 * x, 3), (x, 4))]
    keys.append(key_of(Eden(1, seed=1).encode(tf.constant(x), ROUND)))
    assert len({tuple(key) for key in keys}) == 4


@pytest.mark.parametrize("bits", range(1, 9))
def test_the_wire_form_is_a_header_a_scale_a_block_and_the_bits(bits):
    body, _ = round_trip(Pipeline([Eden(bits)]), np.ones(2**13))
    assert len(body) == 1 + 8 + 4 + 2**13 * bits // 8


@pytest.mark.parametrize("bits", [0, 9, 1.5, True])
def test_a_number_of_bits_that_does_not_exist_is_refused(bits):
    with pytest.raises(ConfigError, match="it must be a whole number from 1 to 8"):
        Eden(bits)


def test_the_configuration_is_read_from_the_payload():
    code = Eden(5, seed=9).encode(np.ones(100, np.float32), 0)
    assert Eden.from_payload(code) == Eden(5)


@pytest.mark.parametrize("first", [[], [0], [9], [255]], ids=str)
def test_a_payload_with_an_impossible_number_of_bits_is_refused(first):
    with pytest.raises(PayloadError, match="bits; there are 1 to 8"):
        Eden.from_payload(np.array(first, np.uint8))
