"""Tests index coders: round trips of any index set, the documented sizes, and hostile bytes."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug.encoders.coders import Offsets, Rice, Seeded
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.sparsifiers import RandomK
from fedplug.errors import ArgumentError, CapabilityError, ConfigError, PayloadError


@pytest.mark.parametrize("p", [0.1, 0.01, 0.001])
def test_signs_and_rice_coded_indices_come_within_two_percent_of_the_entropy(p):
    size = 400_000
    chosen = np.flatnonzero(np.random.default_rng(0).random(size) < p)
    share = len(chosen) / size
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share) + share
    bits = (8 * len(Rice().encode(chosen.astype(np.int32), size, 3)) + len(chosen)) / size
    assert bits == pytest.approx(entropy, rel=0.02)


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_seeded_indices_are_one_of_each_run_and_are_drawn_again_from_eight_bytes(count, size, seed, number):
    count = min(count, size)
    indices = RandomK(count=count, seed=seed).select(np.arange(size, dtype=np.float32), {}, number).indices
    begins = np.arange(count + 1) * size // count
    assert ((indices >= begins[:-1]) & (indices < begins[1:])).all()
    code = Seeded(seed).encode(indices, size, number)
    assert len(code) == 8
    np.testing.assert_array_equal(Seeded(seed).decode(code, count, size), indices)


def test_a_seed_is_not_written_for_indices_it_did_not_draw():
    with pytest.raises((ArgumentError, PayloadError), match=r"were not drawn by seeded\(seed=1\)"):
        Seeded(1).encode(np.int32([0, 1]), 100, 3)


@pytest.mark.parametrize(
    "code", [b"", b"\0" * 7, b"\0" * 9, b"\0\0\0\x80\0\0\0\0", b"\0\0\0\0\xff\xff\xff\xff"]
)
def test_a_seed_of_another_length_or_out_of_range_is_refused(code):
    with pytest.raises(PayloadError):
        Seeded().decode(np.frombuffer(code, np.uint8), 2, 10)


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, True, None])
def test_a_seed_that_is_no_whole_number_in_range_is_refused(seed):
    for make in (Seeded, lambda seed: RandomK(0.1, seed=seed)):
        with pytest.raises(ConfigError, match="seed is"):
            make(seed)


@st.composite
def chunked_indices(draw):
    """A chunk, a size, and as many indices of every chunk as it has, at most some number."""
    chunk, size, each = draw(st.integers(2, 20)), draw(st.integers(0, 90)), draw(st.integers(0, 20))
    indices = []
    for start in range(0, size, chunk):
        places = range(start, min(start + chunk, size))
        indices += sorted(draw(st.permutations(places))[:each])
    return chunk, size, indices


@settings(deadline=None)
@given(example=chunked_indices())
def test_offsets_are_read_back_and_take_the_bits_of_the_largest(example):
    chunk, size, indices = example
    code = Offsets(chunk).encode(np.array(indices, np.int32), size, 0)
    assert len(code) == 4 + math.ceil(len(indices) * math.ceil(math.log2(chunk)) / 8)
    assert Offsets.from_payload(code) == Offsets(chunk)
    assert Offsets(chunk).decode(code, len(indices), size).tolist() == indices


@settings(deadline=None)
@given(data=st.binary(max_size=12), count=st.integers(0, 20), size=st.integers(20, 40))
def test_any_offsets_are_refused_or_ascend_in_chunks(data, count, size):
    code = np.frombuffer(data, np.uint8)
    with contextlib.suppress(PayloadError):
        indices = Offsets.from_payload(code).decode(code, count, size)
        assert len(indices) == count
        assert (np.diff(indices) > 0).all()
        assert ((indices >= 0) & (indices < size)).all()
        assert Offsets.from_payload(code).encode(indices, size, 0).tobytes() == data


def test_offsets_are_frozen_and_refuse_indices_of_other_chunks():
    assert Offsets(8).encode(np.array([1, 7, 8, 10], np.int32), 12, 0).tobytes().hex() == "080000003904"
    with pytest.raises(PayloadError, match="equally many of each chunk of 8; select with this chunk"):
        Offsets(8).encode(np.array([1, 7, 6, 10], np.int32), 16, 0)
    with pytest.raises(PayloadError, match="number of indices is not that"):
        Offsets(8).encode(np.array([1, 7, 8], np.int32), 16, 0)


@pytest.mark.needs("tensorflow")
def test_offsets_are_not_for_tensors():
    import tensorflow as tf

    encoder = fedplug.encoder("topk(count=2, chunk=8) | offsets(8)")
    with pytest.raises(CapabilityError, match="executes on NumPy arrays only, so it cannot encode tensors"):
        ModelEncoder(encoder, [tf.TensorSpec([100], tf.float32, "w")])
