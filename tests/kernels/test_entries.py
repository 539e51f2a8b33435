"""Functions that read or write entries in one call: refusals, and lists. tests/codecs tests their bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug import errors, kernels, ops, wire

FORMS = ("rice", "gaps")
DTYPES = [np.dtype(dtype) for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
NUMBERS = (0, -0.0, 1, -2.5, 3e4)


@st.composite
def bodies(draw):
    """Bodies of at most forty entries, with the arguments that read them."""
    size = draw(st.sampled_from([1, 40, 3000, 2**31 - 1]))
    indices = np.array(sorted(draw(st.sets(st.integers(0, min(size, 10**6) - 1), max_size=40))), np.int32)
    form, dtype = draw(st.sampled_from(FORMS)), draw(st.sampled_from(DTYPES))
    count = len(indices)
    values = np.array(draw(st.lists(st.sampled_from(NUMBERS), min_size=count, max_size=count)), dtype)
    code = kernels.encode_indices(indices, size, form=form)
    body = kernels.sparse_body(count, code, values.view(np.uint8))
    return body, size, dtype, form, values, indices


def framed(indices, size, values, header, **form):
    return kernels.frame_entries_of_each([indices], [size], [values], [header], **form)[0]


def one_after_the_other(body, size, dtype, form):
    count, code, data = kernels.split_sparse_body(body, size)
    return ops.finite_from_bytes(data, count, dtype), kernels.decode_indices(code, count, size, form=form)


def outcome(read, body, size, dtype, form):
    """The bits of the entries, or the error."""
    try:
        values, indices = read(body, size, dtype, form=form)
    except (errors.ArgumentError, errors.PayloadError) as error:
        return type(error), str(error)
    return values.dtype, values.tobytes(), indices.tobytes()


@settings(max_examples=100)
@given(bodies(), st.integers(0, 7))
def test_it_reads_written_data_at_any_position(written, offset):
    body, size, dtype, form, values, indices = written
    memory = np.zeros(offset + len(body), np.uint8)
    memory[offset:] = body
    found, places = kernels.read_entries(memory[offset:], size, dtype, form=form)
    assert found.dtype == dtype
    assert found.tobytes() == values.tobytes()
    np.testing.assert_array_equal(places, indices)
    assert places.dtype == np.int32
    assert not (np.may_share_memory(found, memory) and found.flags.writeable)


@settings(max_examples=200)
@given(bodies(), st.data())
def test_it_agrees_with_the_three_steps_on_any_bytes(written, data):
    body, size, dtype, form, _, _ = written
    changed = body.copy()
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    changed = changed[: data.draw(st.integers(0, len(body)))]
    wanted = outcome(one_after_the_other, changed, size, dtype, form)
    assert outcome(kernels.read_entries, changed, size, dtype, form) == wanted


def test_the_error_names_the_fault():
    code = kernels.encode_indices(np.array([2, 5], np.int32), 10)
    body = kernels.sparse_body(2, code, np.ones(2, np.float32).view(np.uint8))
    float32 = np.dtype(np.float32)
    assert [part.tolist() for part in kernels.read_entries(body, 10, float32)] == [[1, 1], [2, 5]]
    with pytest.raises(errors.PayloadError, match="wrong length, 8; there must be 16"):
        kernels.read_entries(body, 10, np.dtype(np.float64))
    with pytest.raises(errors.PayloadError, match="do not fit the payload or the tensor"):
        kernels.read_entries(body, 1, float32)
    infinite = kernels.sparse_body(2, code, np.array([1, np.inf], np.float32).view(np.uint8))
    with pytest.raises(errors.PayloadError, match="a raw value is NaN or infinite"):
        kernels.read_entries(infinite, 10, float32)
    with pytest.raises(errors.ArgumentError, match="form is 'zip'; it must be rice"):
        kernels.read_entries(body, 10, float32, form="zip")
    with pytest.raises(errors.ArgumentError, match="not a floating dtype"):
        kernels.read_entries(body, 10, np.dtype(np.int32))


HEADER = wire.header("sparse/1", "float32", (3, 1000))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_that_are_not_finite_are_not_written(dtype):
    values = np.ones(1000, dtype)
    values[700] = np.inf
    with pytest.raises(errors.NonFiniteError, match="the array holds a NaN or an infinity"):
        framed(np.arange(1000, dtype=np.int32), 3000, values, HEADER)


@pytest.mark.parametrize("form", FORMS)
def test_indices_that_do_not_ascend_are_not_written(form):
    values = np.ones(2, np.float32)
    for indices, size in (([5, 2], 10), ([2, 2], 10), ([2, 5], 5), ([-1, 2], 10)):
        with pytest.raises(errors.ArgumentError, match="index"):
            framed(np.array(indices, np.int32), size, values, HEADER, form=form)


def test_an_unwritable_file_is_named():
    indices, values = np.array([2, 5], np.int32), np.ones(2, np.float32)
    with pytest.raises(errors.ArgumentError, match="indices has 2 elements and values has 3"):
        framed(indices, 10, np.ones(3, np.float32), HEADER)
    with pytest.raises(errors.ArgumentError, match="values has dtype int32"):
        framed(indices, 10, indices, HEADER)
    with pytest.raises(errors.ArgumentError, match="indices has dtype int64"):
        framed(indices.astype(np.int64), 10, values, HEADER)
    with pytest.raises(errors.ArgumentError, match="values is not C-contiguous"):
        framed(indices, 10, np.ones(4, np.float32)[::2], HEADER)
    with pytest.raises(errors.ArgumentError, match="form is 'zip'; it must be rice"):
        framed(indices, 10, values, HEADER, form="zip")


@pytest.mark.parametrize("form", FORMS)
def test_a_list_is_written_as_one_after_the_other(form):
    rng = np.random.default_rng(0)
    sizes = [3000, 600_000, 5, 1, 40]
    indices = [np.flatnonzero(rng.random(n) < 0.5).astype(np.int32) for n in sizes]
    values = [rng.standard_normal(len(each)).astype(np.float32) for each in indices]
    values[2] = rng.integers(0, 255, 7).astype(np.uint8)
    headers = [wire.header("sparse/1", "float32", (n,)) for n in sizes]
    wanted = [framed(*each, form=form) for each in zip(indices, sizes, values, headers, strict=True)]
    assert kernels.frame_entries_of_each(indices, sizes, values, headers, form=form) == wanted
    assert kernels.frame_entries_of_each([], [], [], [], form=form) == []


def test_a_bad_tensor_of_a_list_is_refused():
    good, falls, ones = np.array([2, 5], np.int32), np.array([5, 2], np.int32), np.ones(2, np.float32)
    with pytest.raises(errors.ArgumentError, match="index"):
        kernels.frame_entries_of_each([good, falls], [9, 9], [ones, ones], [HEADER] * 2)
    with pytest.raises(errors.NonFiniteError):
        kernels.frame_entries_of_each([good, good], [9, 9], [ones, ones * np.inf], [HEADER] * 2)
    with pytest.raises(errors.ArgumentError, match="one item for each tensor"):
        kernels.frame_entries_of_each([good, good], [9], [ones, ones], [HEADER] * 2)
