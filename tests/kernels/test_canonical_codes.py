"""Decoders of indices and values accept one code for each result: no unused bits, no padding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import kernels
from fedplug.errors import PayloadError

CHANGES = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "append", "set"]), st.integers(0, 10**6), st.integers(0, 255)),
    min_size=1,
    max_size=2,
)


def changed(code, changes):
    data = bytearray(code.tobytes())
    for kind, at, byte in changes:
        if kind == "append" or not data:
            data.append(byte)
        elif kind == "flip":
            data[at % len(data)] ^= 1 << byte % 8
        elif kind == "cut":
            del data[at % len(data) :]
        else:
            data[at % len(data)] = byte
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize("form", ["rice", "gaps"])
@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))), CHANGES)
@settings(max_examples=100, deadline=None)
def test_indices_have_one_code(form, sizes_and_indices, changes):
    size, chosen = sizes_and_indices
    indices = np.array(sorted(chosen), np.int32)
    code = changed(kernels.encode_indices(indices, size, form=form), changes)
    try:
        decoded = kernels.decode_indices(code, indices.size, size, form=form)
    except PayloadError:
        return
    assert kernels.encode_indices(decoded, size, form=form).tobytes() == code.tobytes()


@pytest.mark.parametrize("form", ["qsgd", "bfp", "nearest", "sign", "float16", "bfloat16"])
@given(st.integers(0, 40), st.integers(0, 2**31 - 1), CHANGES)
@settings(max_examples=100, deadline=None)
def test_other_bytes_are_refused_or_other_values(form, count, seed, changes):
    values = np.random.default_rng(seed).standard_normal(count).astype(np.float32)
    options = {"bits": 5, "block_size": 16}
    code = kernels.encode_values(values, form, **options)
    other = changed(code, changes)
    try:
        decoded = kernels.decode_values(other, count, form, **options)
    except PayloadError:
        return
    same = decoded.tobytes() == kernels.decode_values(code, count, form, **options).tobytes()
    assert same == (other.tobytes() == code.tobytes())
