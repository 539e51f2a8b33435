"""The codes of indices and the checksum, on NumPy arrays."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels

FORMS = ("rice", "gaps")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("density", [0.001, 0.1, 0.9])
def test_every_form_gives_the_indices_back_at_every_density(form, density):
    indices = np.flatnonzero(np.random.default_rng(0).random(50_000) < density).astype(np.int32)
    code = kernels.encode_indices(indices, 50_000, form=form)
    code.flags.writeable = False
    np.testing.assert_array_equal(kernels.decode_indices(code, len(indices), 50_000, form=form), indices)
    out = np.full(len(indices), -1, np.int32)
    assert kernels.decode_indices(code, len(indices), 50_000, form=form, out=out) is out
    np.testing.assert_array_equal(out, indices)


@pytest.mark.parametrize("density", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_rice_code_is_never_much_longer_than_a_bit_per_element(density):
    indices = np.flatnonzero(np.random.default_rng(0).random(50_000) < density).astype(np.int32)
    assert len(kernels.encode_indices(indices, 50_000)) <= 50_000 // 8 + 3


def test_an_array_that_cannot_hold_the_indices_is_refused():
    code = kernels.encode_indices(np.int32([3, 8, 60]), 100)
    with pytest.raises(errors.ArgumentError, match="out has 2 elements; it must have 3"):
        kernels.decode_indices(code, 3, 100, out=np.empty(2, np.int32))
    with pytest.raises(errors.ArgumentError, match="out has dtype int64; it must be int32"):
        kernels.decode_indices(code, 3, 100, out=np.empty(3, np.int64))
    memory = np.zeros(16, np.uint8)
    memory[: len(code)] = code
    with pytest.raises(errors.ArgumentError, match="code and out share memory"):
        kernels.decode_indices(memory[: len(code)], 3, 100, out=memory.view(np.int32)[:3])


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
